"""Approvals and runs in a real browser, with live updates."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NewPerson, Screen, agree
from tests.support.client import Caller
from tests.support.service import Service
from workflow_api.v1.audit_pb2 import ListAuditRecordsRequest
from workflow_api.v1.users_pb2 import ROLE_ADMINISTRATOR, ROLE_APPROVER


@pytest.fixture(scope="module")
def caller(console: Service) -> Caller:
    return console.new_caller()


@pytest.fixture(scope="module")
def workflows(console: Service) -> dict[str, str]:
    return console.admin.apply_test_workflows()


def mark(screen: Screen) -> None:
    """Sets a mark that is lost when the page is loaded again."""
    screen.page.evaluate("window.stayed = true")


def has_stayed(screen: Screen) -> bool:
    return bool(screen.page.evaluate("window.stayed === true"))


def approval_of(caller: Caller, run_id: str, step: str) -> str:
    items = caller.get(f"/runs/{run_id}/approvals").json()["items"]
    (found,) = (item["approval_id"] for item in items if item["step"] == step)
    return str(found)


def test_an_approver_decides_and_sees_the_run_continue(
    console: Service, caller: Caller, workflows: dict[str, str], signed_in: NewPerson
) -> None:
    run_id = caller.parked(workflows["Gate"], input_text="<b>words</b>")["run_id"]
    approval_id = approval_of(caller, run_id, "review")
    screen = signed_in("decider", ROLE_APPROVER)
    screen.open("/approvals")
    screen.page.locator(f'[data-item="{approval_id}"]').click()
    screen.page.get_by_role("link", name="On a page of its own").click()
    expect(screen.page.locator("h1")).to_have_text("Check the echo")
    screen.page.get_by_label("Comment").fill("Plausible\nenough")
    screen.page.get_by_role("button", name="Approve").click()

    screen.page.wait_for_url(f"**/runs/{run_id}")
    expect(screen.page.get_by_role("status")).to_contain_text("Approved “Check the echo” of Gate: the run continues.")
    expect(screen.page.locator("#summary")).to_contain_text("completed")
    expect(screen.page.locator("#approvals")).to_be_empty()
    screen.page.locator("#tabs").get_by_role("link", name="Events").click()
    expect(screen.page.locator("#log")).to_contain_text("run.completed")
    assert caller.wait(run_id)["status"] == "completed"
    record = console.admin.audit.ListAuditRecords(ListAuditRecordsRequest(target=approval_id)).items[0]
    assert (record.actor, record.action) == ("user:decider", "approval.approved")
    assert screen.complaints == []


def test_an_open_page_is_updated_until_the_run_ends(
    caller: Caller, workflows: dict[str, str], signed_in: NewPerson
) -> None:
    run_id = caller.parked(workflows["Two gates"])["run_id"]
    screen = signed_in("watcher", ROLE_ADMINISTRATOR)
    screen.open(f"/runs/{run_id}")
    mark(screen)
    expect(screen.page.locator(".graph g.warn")).to_have_count(1)
    expect(screen.page).to_have_title(re.compile(r"waiting for approval · Two gates · run_…\w+ . Runs · Workflow API"))

    caller.post(f"/runs/{run_id}/cancel", {})

    expect(screen.page.locator("#summary .badge")).to_have_text("cancelled")
    expect(screen.page).to_have_title(re.compile("cancelled · Two gates · "))
    expect(screen.page.locator("#approvals")).to_be_empty()
    expect(screen.page.get_by_role("button", name="Cancel the run")).to_have_count(0)
    assert has_stayed(screen)
    assert screen.complaints == []


def test_typed_text_survives_live_updates(
    console: Service, caller: Caller, workflows: dict[str, str], signed_in: NewPerson
) -> None:
    run_id = caller.parked(workflows["Side gates"])["run_id"]
    screen = signed_in("writer", ROLE_APPROVER)
    screen.open(f"/runs/{run_id}")
    right = screen.page.locator(f"#{approval_of(caller, run_id, 'right')}")
    right.get_by_label("Comment").fill("Half a thought")
    screen.page.locator("h1").click()

    console.admin.decide(approval_of(caller, run_id, "left"), approve=True)

    expect(screen.page.locator("#row-left")).to_contain_text("completed")
    expect(right.get_by_label("Comment")).to_have_value("Half a thought")


def test_a_late_decision_is_reported(
    console: Service, caller: Caller, workflows: dict[str, str], signed_in: NewPerson
) -> None:
    run_id = caller.parked(workflows["Park"])["run_id"]
    approval_id = approval_of(caller, run_id, "ask")
    screen = signed_in("late", ROLE_APPROVER)
    screen.open(f"/approvals/{approval_id}")
    console.admin.decide(approval_id, approve=True)
    agree(screen.page)
    screen.page.get_by_role("button", name="Reject").click()

    expect(screen.page.get_by_role("status")).to_contain_text("Nothing was changed")
    expect(screen.page.locator("#standing")).to_contain_text("Approved by")
    assert caller.wait(run_id)["status"] == "completed"


def test_an_open_approval_says_who_decided_it_meanwhile_and_keeps_what_was_typed(
    console: Service, caller: Caller, workflows: dict[str, str], signed_in: NewPerson
) -> None:
    approval_id = approval_of(caller, caller.parked(workflows["Park"])["run_id"], "ask")
    screen = signed_in("outpaced", ROLE_APPROVER)
    page = screen.page
    screen.open(f"/approvals/{approval_id}")
    mark(screen)
    approve = page.get_by_role("button", name="Approve")
    expect(approve).to_be_enabled()
    page.get_by_label("Comment").fill("Half a thought")
    console.admin.decide(approval_id, approve=True)

    expect(page.locator("#standing")).to_contain_text("Approved by")
    expect(approve).to_be_disabled()
    expect(page.get_by_label("Comment")).to_have_value("Half a thought")
    page.get_by_label("Comment").fill("")
    page.locator("h1").click()
    expect(approve).to_have_count(0)
    assert has_stayed(screen)
    assert screen.complaints == []


def test_an_administrator_cancels_a_run_and_deactivates_its_workflow(
    caller: Caller, workflows: dict[str, str], signed_in: NewPerson
) -> None:
    run_id = caller.parked(workflows["Park"])["run_id"]
    screen = signed_in("chief", ROLE_ADMINISTRATOR)
    agree(screen.page)
    screen.open(f"/runs/{run_id}")
    screen.page.get_by_role("group", name="Actions").get_by_text("Cancel", exact=True).click()
    screen.page.get_by_label("Reason").fill("Too late")
    screen.page.get_by_role("button", name="Cancel the run").click()
    expect(screen.page.get_by_role("status")).to_have_text("The run is cancelled.")
    expect(screen.page.get_by_role("button", name="Cancel the run")).to_have_count(0)

    screen.open("/workflows")
    screen.page.get_by_role("link", name="Park", exact=True).click()
    screen.page.get_by_role("button", name="Deactivate").click()
    expect(screen.page.get_by_role("status")).to_contain_text("cannot be started")
    screen.page.get_by_role("button", name="Activate").click()
    expect(screen.page.get_by_role("status")).to_have_text("The workflow can be started now.")


@pytest.mark.parametrize("width", [360, 1400])
def test_the_pages_of_a_run_and_its_workflow_fit_the_screen(
    caller: Caller, workflows: dict[str, str], signed_in: NewPerson, width: int
) -> None:
    run_id = caller.finished(workflows["Echo"], input_text="x" * 500, client_reference="r" * 200)["run_id"]
    screen = signed_in(f"reader-{width}", ROLE_APPROVER)
    screen.page.set_viewport_size({"width": width, "height": 800})
    for path in ("/runs", f"/runs/{run_id}", f"/workflows/{workflows['Echo']}"):
        screen.open(path)
        assert screen.page.evaluate("document.documentElement.scrollWidth") <= width, path
    assert not re.search("Cancel the run|Deactivate", screen.page.locator("main").inner_text())
    assert screen.complaints == []
