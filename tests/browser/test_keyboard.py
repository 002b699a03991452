"""Reading and deciding by keyboard alone, with script and without."""

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import NewPerson
from tests.support.client import Caller
from tests.support.poll import until
from tests.support.service import Service
from workflow_api.v1.users_pb2 import ROLE_ADMINISTRATOR

MOST_STOPS = 200


def reach(page: Page, target: Locator) -> None:
    """Presses Tab until the target has the focus, which then is in sight."""
    expect(target).to_be_visible()
    for _ in range(MOST_STOPS):
        page.keyboard.press("Tab")
        if target.evaluate("(each) => each === document.activeElement"):
            expect(target).to_be_in_viewport()
            return
    pytest.fail(f"{MOST_STOPS} presses of Tab did not reach {target}")


@pytest.fixture
def caller(console: Service) -> Caller:
    return console.new_caller()


@pytest.mark.parametrize("script", [True, False], ids=["script", "no-script"])
def test_the_keyboard_alone_reads_decides_and_chooses(
    console: Service, caller: Caller, signed_in: NewPerson, *, script: bool
) -> None:
    workflow_id = console.admin.apply_test_workflows()["Gate"]
    run_id = caller.parked(workflow_id)["run_id"]
    screen = signed_in(f"keyboard-{script}".lower(), ROLE_ADMINISTRATOR)
    browser = screen.page.context.browser
    assert browser is not None
    context = browser.new_context(java_script_enabled=script, storage_state=screen.page.context.storage_state())
    page = context.new_page()

    page.goto(screen.address("/"))
    reach(page, page.get_by_role("link", name="Inbox"))
    page.keyboard.press("Enter")
    page.wait_for_url("**/approvals*")

    page.goto(screen.address(f"/runs/{run_id}"))
    tab = page.locator("#tabs").get_by_role("link", name="Events")
    reach(page, tab)
    page.keyboard.press("Enter")
    expect(page.locator("#log")).to_contain_text("step.started")

    approval_id = caller.get(f"/runs/{run_id}/approvals").json()["items"][0]["approval_id"]
    approve = page.get_by_role("button", name="Approve", exact=True)

    def is_prepared() -> bool:
        page.goto(screen.address(f"/approvals/{approval_id}"))
        return approve.is_visible()

    until(is_prepared, "the material")
    reach(page, approve)
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_have_text("Approved “Check the echo” of Gate: the run continues.")
    assert caller.wait(run_id)["status"] == "completed"

    page.goto(screen.address("/preferences"))
    reach(page, page.get_by_label("Density"))
    page.keyboard.press("ArrowDown")
    reach(page, page.get_by_role("button", name="Save"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("Your settings are saved.")
    expect(page.locator("html")).to_have_attribute("data-density", "compact")

    page.goto(screen.address("/resources"))
    reach(page, page.locator('main a[href="/resources/sets"]'))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    context.close()
