"""Starting a run from the form in a real browser."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NewPerson
from tests.support.service import Service
from workflow_api.v1.audit_pb2 import ListAuditRecordsRequest
from workflow_api.v1.users_pb2 import ROLE_ADMINISTRATOR


@pytest.fixture(scope="module")
def workflows(console: Service) -> dict[str, str]:
    return console.admin.apply_test_workflows()


def test_an_administrator_starts_a_run_from_the_form_and_again_from_its_inputs(
    console: Service, workflows: dict[str, str], signed_in: NewPerson
) -> None:
    screen = signed_in("starter", ROLE_ADMINISTRATOR)
    page = screen.page
    screen.open(f"/workflows/{workflows['Typed']}")
    page.get_by_role("link", name="Start a run").click()
    page.get_by_label("word (required)").fill("alpha")
    page.get_by_label("number").fill("12")
    page.get_by_role("textbox", name="extra").fill('{"a": 1,\n "b" 2}')
    page.get_by_role("button", name="Start the run").click()
    expect(page.locator(".error")).to_contain_text("line 2, column 6")
    expect(page.locator(".place")).to_contain_text("^")

    page.get_by_role("textbox", name="extra").fill('{"a": 1}')
    page.get_by_label("loud").select_option("true")
    page.get_by_label("day").fill("2026-09-24")
    page.get_by_role("button", name="Start the run").click()
    expect(page.locator(".error")).to_contain_text("must be at most 9")

    page.get_by_label("number").fill("7")
    page.get_by_text("Text, reference and labels").click()
    page.get_by_label("Labels").fill("team=north")
    page.get_by_label("Labels").press("Tab")
    page.get_by_role("button", name="Start the run").click()
    expect(page.get_by_role("status")).to_have_text("The run has started.")
    expect(page.locator("#summary")).to_contain_text("completed")
    expect(page.locator("#given")).to_be_visible()
    run_id = screen.path.removeprefix("/runs/")
    record = console.admin.audit.ListAuditRecords(ListAuditRecordsRequest(target=run_id)).items[0]
    assert (record.actor, record.action) == ("user:starter", "run.started")

    screen.open(f"/workflows/{workflows['Typed']}/start?run={run_id}")
    expect(page.get_by_label("number")).to_have_value("7")
    expect(page.get_by_label("Labels")).to_have_value("team=north")
    page.get_by_label("number").press("Enter")
    expect(page.get_by_role("status")).to_have_text("The run has started.")
    assert [text for text in screen.complaints if "400" not in text] == []


@pytest.mark.parametrize("width", [360, 1400])
def test_the_form_fits_the_screen_and_says_why_it_cannot_start(
    workflows: dict[str, str], signed_in: NewPerson, width: int
) -> None:
    screen = signed_in(f"start-reader-{width}", ROLE_ADMINISTRATOR)
    screen.page.set_viewport_size({"width": width, "height": 900})
    screen.open(f"/workflows/{workflows['Typed']}/start")
    assert screen.page.evaluate("document.documentElement.scrollWidth") <= width
    screen.open(f"/workflows/{workflows['From a bucket']}/start")
    expect(screen.page.locator(".problem")).to_contain_text("untested")
    screen.page.get_by_role("button", name="Browse").click()
    expect(screen.page.locator("#browsed")).to_be_visible()
    assert screen.complaints == []
