"""What people of each role see in a browser."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NewPerson, agree
from tests.browser.sweep import AXE_WIDTHS, CUT, findings
from tests.support.client import Caller
from tests.support.service import Service
from workflow_api.v1.users_pb2 import (
    ROLE_ADMINISTRATOR,
    ROLE_APPROVER,
    ROLE_OPERATOR,
    ROLE_VIEWER,
    ChosenWorkflows,
    SetUserRoleRequest,
)


@pytest.fixture(scope="module")
def caller(console: Service) -> Caller:
    return console.new_caller()


@pytest.fixture(scope="module")
def workflows(console: Service) -> dict[str, str]:
    return console.admin.apply_test_workflows()


def test_a_viewer_reads_runs_and_is_offered_nothing_to_change(
    caller: Caller, workflows: dict[str, str], signed_in: NewPerson
) -> None:
    run_id = caller.parked(workflows["Gate"])["run_id"]
    screen = signed_in("onlooker", ROLE_VIEWER)
    page = screen.page
    screen.open("/")
    expect(page.locator("nav[aria-label=Pages] a")).to_have_text(
        ["Overview", "Runs", "Workflows", "Schedules", "Agents", "Deployment"]
    )
    for path in (f"/runs/{run_id}", f"/workflows/{workflows['Gate']}", "/deployment", "/runs", "/"):
        screen.open(path)
        # The one form is that of signing out.
        expect(page.locator("form[method=post]")).to_have_count(1)
        expect(page.locator("main")).not_to_contain_text("Approve")
        for width in AXE_WIDTHS:
            page.set_viewport_size({"width": width, "height": 800})
            assert [*page.evaluate(CUT), *findings(page)] == [], f"{path} at {width}"
    # The list of pages is beside them, not behind a button.
    page.set_viewport_size({"width": 1440, "height": 800})
    assert screen.complaints == []
    for path in ("/keys", "/people", "/audit", "/approvals", f"/workflows/{workflows['Gate']}/start"):
        response = page.goto(screen.address(path))
        assert response is not None
        assert response.status == 403
        expect(page.locator("main")).to_contain_text("Your role does not allow this")
        expect(page.locator("nav[aria-label=Pages]")).to_be_visible()


def test_an_operator_starts_and_cancels_and_decides_nothing(
    caller: Caller, workflows: dict[str, str], signed_in: NewPerson
) -> None:
    screen = signed_in("runner", ROLE_OPERATOR)
    page = screen.page
    screen.open(f"/workflows/{workflows['Gate']}")
    page.get_by_role("link", name="Start a run").click()
    page.get_by_role("button", name="Start").click()
    page.wait_for_url("**/runs/run_*")
    expect(page.get_by_role("button", name="Approve")).to_have_count(0)
    agree(page)
    page.get_by_role("group", name="Actions").get_by_text("Cancel", exact=True).click()
    page.get_by_role("button", name="Cancel the run").click()
    expect(page.get_by_role("status")).to_contain_text("cancelled")
    assert screen.complaints == []


OWN = """
kind: Workflow
name: Own gate
status: active
steps: [{step: review, approval: {title: Wait}}]
"""


def test_an_approver_of_one_workflow_sees_and_decides_its_gates_alone(
    console: Service, caller: Caller, workflows: dict[str, str], signed_in: NewPerson
) -> None:
    # Gates of a workflow that other tests use wait there, too.
    mine = console.admin.apply(OWN)["Own gate"]
    own = caller.parked(mine)["run_id"]
    other = caller.parked(workflows["Gate"])["run_id"]
    screen = signed_in("gatekeeper", ROLE_APPROVER)
    page = screen.page
    chosen = ChosenWorkflows(workflow_ids=[mine])
    console.admin.users.SetUserRole(SetUserRoleRequest(name="gatekeeper", role=ROLE_APPROVER, decides_for=chosen))
    approval = caller.get(f"/runs/{other}/approvals").json()["items"][0]["approval_id"]

    screen.open("/runs")
    expect(page.locator("table.runs")).to_contain_text(own)
    expect(page.locator("table.runs")).not_to_contain_text(other)
    screen.open("/workflows")
    expect(page.locator("main tbody tr")).to_have_count(1)
    screen.open("/search?q=Gate")
    expect(page.locator("main")).not_to_contain_text(workflows["Gate"])
    for path in (f"/runs/{other}", f"/approvals/{approval}", f"/workflows/{workflows['Gate']}"):
        response = page.goto(screen.address(path))
        assert response is not None
        assert response.status == 404

    screen.open("/approvals")
    expect(page.locator("[data-item]")).to_have_count(1)
    screen.complaints.clear()
    # Live: a gate of another workflow is none of theirs, the next of their own is.
    caller.parked(workflows["Gate"])
    second = caller.parked(mine)["run_id"]
    expect(page.locator("[data-item]")).to_have_count(2)
    screen.open(f"/runs/{own}")
    page.get_by_role("button", name="Approve").click()
    expect(page.locator("#summary")).to_contain_text("completed")
    screen.open("/approvals")
    expect(page.locator("[data-item]")).to_have_count(1)
    expect(page.locator("main")).to_contain_text(second)
    assert screen.complaints == []


def test_a_role_is_changed_on_the_page_of_people_and_holds_at_once(
    console: Service, workflows: dict[str, str], signed_in: NewPerson
) -> None:
    console.admin.add_user("newcomer", ROLE_VIEWER)
    screen = signed_in("promoter", ROLE_ADMINISTRATOR)
    page = screen.page
    screen.open("/people")
    page.get_by_role("row", name="newcomer").get_by_role("link", name="Change role").click()
    page.get_by_label("Role", exact=True).select_option("approver")
    page.get_by_label("Only these, ticked below").check()
    page.get_by_label("Gate", exact=True).check()
    for width in AXE_WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        assert [*page.evaluate(CUT), *findings(page)] == []
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status")).to_have_text("newcomer is an approver now.")
    expect(page.get_by_role("row", name="newcomer")).to_contain_text("Approver of 1 workflow")
    assert screen.complaints == []
