"""The inbox of approvals in a real browser: by keys, several at once, and with a count."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NewPerson, agree
from tests.support.client import Caller
from tests.support.poll import until
from tests.support.service import Service
from workflow_api.v1.runs_pb2 import ListPendingApprovalsRequest
from workflow_api.v1.users_pb2 import ROLE_APPROVER


@pytest.fixture(scope="module")
def caller(console: Service) -> Caller:
    return console.new_caller()


@pytest.fixture(scope="module")
def workflows(console: Service) -> dict[str, str]:
    made = console.admin.apply_test_workflows()
    # Those that other tests left would come first.
    left = console.admin.runs.ListPendingApprovals(ListPendingApprovalsRequest(workflow_id=made["Park"]))
    for pending in left.items:
        console.admin.decide(pending.approval.approval_id, approve=False)
    return made


def test_keys_move_and_decide_and_the_count_follows(
    caller: Caller, workflows: dict[str, str], signed_in: NewPerson
) -> None:
    first, second = (caller.parked(workflows["Park"])["run_id"] for _ in range(2))
    screen = signed_in("by-keys", ROLE_APPROVER)
    page = screen.page
    agree(page)
    page.goto(screen.address(f"/approvals?gate=ask@{workflows['Park']}"))
    links = page.locator("[data-item]")
    expect(links.first).to_have_attribute("aria-current", "true")
    total = links.count()
    waiting = int(page.locator("#waiting").get_attribute("data-count") or "")
    expect(page).to_have_title(f"({waiting}) Approvals · Workflow API")
    page.keyboard.press("j")
    expect(links.nth(1)).to_have_attribute("aria-current", "true")
    page.keyboard.press("k")
    expect(links.first).to_have_attribute("aria-current", "true")

    page.keyboard.press("a")
    expect(page.get_by_role("status")).to_contain_text("of Park: the run continues.")
    expect(links).to_have_count(total - 1)
    expect(page).to_have_title(f"({waiting - 1}) Approvals · Workflow API")

    page.evaluate("window.stayed = true")
    page.keyboard.press("x")
    expect(page.locator(".items :checked")).to_have_count(1)
    third = caller.parked(workflows["Park"])["run_id"]
    expect(links).to_have_count(total)
    expect(page).to_have_title(f"({waiting}) Approvals · Workflow API")
    assert page.evaluate("window.stayed === true")
    expect(page.locator(".items :checked")).to_have_count(1)
    assert caller.wait(first)["status"] == "completed"

    for box in page.locator('.items input[type="checkbox"]').all():
        box.check()
    page.locator("#bar").get_by_role("button", name="Approve").click()
    page.get_by_role("button", name="Approve all of them").click()
    expect(page.get_by_role("status")).to_have_text(f"Approved: {total}.")
    assert {caller.wait(run_id)["status"] for run_id in (second, third)} == {"completed"}

    page.get_by_role("link", name="Who decided what").click()
    expect(page.locator("tbody tr", has_text=second)).to_contain_text("by-keys")
    assert screen.complaints == []


def test_an_approval_that_somebody_else_decides_stays_open_and_no_other_takes_its_place(
    caller: Caller, workflows: dict[str, str], signed_in: NewPerson
) -> None:
    first, second = (caller.parked(workflows["Park"]) for _ in range(2))
    screen = signed_in("slower", ROLE_APPROVER)
    page = screen.page
    page.goto(screen.address(f"/approvals?gate=ask@{workflows['Park']}"))
    expect(page.locator("article")).to_contain_text(first["run_id"])

    caller.post(f"/runs/{first['run_id']}/cancel", {})
    expect(page.locator("article")).to_contain_text("This approval is not pending any more")
    expect(page.locator("#decide")).to_have_count(0)
    page.get_by_role("link", name="Open the next").click()
    expect(page.locator("article")).to_contain_text(second["run_id"])
    caller.post(f"/runs/{second['run_id']}/cancel", {})
    expect(page.locator("article")).to_contain_text("This approval is not pending any more")
    assert screen.complaints == []


def test_the_inbox_works_without_script(
    console: Service, caller: Caller, workflows: dict[str, str], signed_in: NewPerson
) -> None:
    run_id = caller.parked(workflows["Gate"])["run_id"]
    screen = signed_in("scriptless", ROLE_APPROVER)
    browser = screen.page.context.browser
    assert browser is not None
    plain = browser.new_context(java_script_enabled=False, storage_state=screen.page.context.storage_state())
    page = plain.new_page()
    page.goto(screen.address("/approvals"))
    page.locator(".items a", has_text="Check the echo").last.click()
    expect(page.locator("article")).to_contain_text(run_id)
    approve = page.get_by_role("button", name="Approve", exact=True)

    def is_prepared() -> bool:
        page.reload()
        return approve.is_visible()

    until(is_prepared, "the material")
    approve.click()
    expect(page.get_by_role("status")).to_contain_text("of Gate: the run continues.")
    expect(page.get_by_role("link", name="Open the run")).to_have_attribute("href", f"/runs/{run_id}")
    plain.close()
    assert caller.wait(run_id)["status"] == "completed"


@pytest.mark.parametrize("width", [360, 1400])
def test_the_inbox_fits_the_screen(caller: Caller, workflows: dict[str, str], signed_in: NewPerson, width: int) -> None:
    run_id = caller.parked(workflows["Gate"], input_text="w" * 9_000)["run_id"]
    screen = signed_in(f"inbox-reader-{width}", ROLE_APPROVER)
    screen.page.set_viewport_size({"width": width, "height": 800})
    screen.open("/approvals")
    assert screen.page.evaluate("document.documentElement.scrollWidth") <= width
    caller.post(f"/runs/{run_id}/cancel", {})
    assert screen.complaints == []
