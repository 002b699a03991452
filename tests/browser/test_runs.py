"""The list of runs in a real browser: found by its form, and live."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NewPerson
from tests.support.client import Caller
from tests.support.service import Service
from workflow_api.v1.users_pb2 import ROLE_ADMINISTRATOR


@pytest.fixture(scope="module")
def caller(console: Service) -> Caller:
    return console.new_caller()


@pytest.fixture(scope="module")
def workflows(console: Service) -> dict[str, str]:
    return console.admin.apply_test_workflows()


def test_a_run_is_found_by_its_label_and_filters_and_the_list_is_live(
    caller: Caller, workflows: dict[str, str], signed_in: NewPerson
) -> None:
    labels = {"order": "found-7"}
    ended = caller.finished(workflows["Echo"], labels=labels)["run_id"]
    parked = caller.parked(workflows["Park"], labels=labels)["run_id"]
    screen = signed_in("finder", ROLE_ADMINISTRATOR)
    screen.open("/runs")
    screen.page.get_by_label("Find").fill("order=found-7")
    screen.page.get_by_role("button", name="Show").click()
    rows = screen.page.locator("#found tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text(parked)
    assert "q=order%3Dfound-7" in screen.path

    screen.page.get_by_label("Status").select_option("waiting_for_approval")
    screen.page.get_by_role("button", name="Show").click()
    expect(rows).to_have_count(1)
    screen.page.evaluate("window.stayed = true")
    caller.post(f"/runs/{parked}/cancel", {})
    expect(screen.page.locator("#found")).to_contain_text("No run matches.")
    assert screen.page.evaluate("window.stayed === true")

    screen.open("/runs?q=" + ended)
    expect(rows).to_have_count(1)
    expect(screen.page.locator("#days svg title").last).to_contain_text("ended")
    assert screen.complaints == []


@pytest.mark.parametrize("width", [360, 1400])
def test_the_list_of_runs_fits_the_screen(
    caller: Caller, workflows: dict[str, str], signed_in: NewPerson, width: int
) -> None:
    caller.finished(workflows["Echo"], client_reference="r" * 200, labels={"l" * 60: "v" * 200})
    screen = signed_in(f"list-reader-{width}", ROLE_ADMINISTRATOR)
    screen.page.set_viewport_size({"width": width, "height": 800})
    screen.open("/runs")
    assert screen.page.evaluate("document.documentElement.scrollWidth") <= width
    assert screen.complaints == []
