"""The list of runs in a real browser: found by its form, live, and changed by the boxes of its rows."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NewPerson, agree
from tests.support.client import Caller
from tests.support.service import Service
from workflow_api.v1.users_pb2 import ROLE_ADMINISTRATOR

# Sends the form of the page twice, and once more with the token of another page; the answers' texts and new runs.
SENT_THRICE = """async () => {
  const form = document.querySelector("form[action='/runs/resume']");
  const parse = async (answer) => new DOMParser().parseFromString(await answer.text(), "text/html");
  async function send(csrf) {
    const fields = new URLSearchParams(new FormData(form));
    if (csrf) fields.set("csrf", csrf);
    const page = await parse(await fetch(form.action, { method: "POST", body: fields }));
    const runs = [...page.querySelectorAll("td:last-child a")].map((link) => link.textContent);
    return { said: page.querySelector("[role=status]").textContent, runs };
  }
  const other = (await parse(await fetch("/runs"))).querySelector("[name=csrf]").value;
  return [await send(), await send(), await send(other)];
}"""


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


def test_ticked_runs_stay_ticked_in_a_live_list_and_are_cancelled_resumed_and_erased(
    caller: Caller, workflows: dict[str, str], signed_in: NewPerson
) -> None:
    labels = {"batch": "ticked"}
    parked = [caller.parked(workflows["Park"], labels=labels)["run_id"] for _ in range(2)]
    screen = signed_in("ticker", ROLE_ADMINISTRATOR)
    page = screen.page
    agree(page)
    screen.open("/runs?q=batch%3Dticked")
    everything = page.get_by_label("All of this page")
    everything.check()
    expect(page.get_by_role("status")).to_have_text("2 chosen:")
    page.get_by_label(f"Select run {parked[0]}").uncheck()
    expect(everything).to_be_checked(indeterminate=True)
    page.get_by_label(f"Select run {parked[0]}").press("Space")

    page.evaluate("window.stayed = true")
    ended = caller.finished(workflows["Echo"], labels=labels)["run_id"]
    expect(page.locator("#found tbody tr")).to_have_count(3)
    assert page.evaluate("window.stayed === true")
    expect(page.locator("td :checked")).to_have_count(2)
    expect(page.get_by_role("status")).to_have_text("2 chosen:")

    everything.check()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Cancel 2 runs?")
    expect(page.get_by_role("group", name="Runs left out")).to_contain_text(f"{ended}")
    page.get_by_label("Reason").fill("no longer needed")
    page.get_by_role("button", name="Cancel these 2 runs").click()
    expect(page.get_by_role("status")).to_have_text("2 cancelled or ending, 0 skipped, 0 refused.")
    assert {caller.wait(run_id)["status"] for run_id in parked} == {"cancelled"}

    page.get_by_role("link", name="Back to the runs").click()
    assert screen.path == "/runs?q=batch%3Dticked"
    for run_id in parked:
        page.get_by_label(f"Select run {run_id}").check()
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("button", name="Resume these 2 runs").wait_for()
    first, again, of_another_page = page.evaluate(SENT_THRICE)
    assert "2 resumed, 0 skipped, 0 refused." in first["said"]
    assert first == again == of_another_page
    page.reload()
    expect(page.get_by_role("main")).to_contain_text("None of the selected runs can be changed like this.")
    expect(page.get_by_role("group", name="Runs left out")).to_contain_text("has taken over from it already.")

    page.get_by_role("link", name="Go back").click()
    expect(page.locator("#found tbody tr")).to_have_count(5)
    page.get_by_label("All of this page").check()
    page.get_by_role("button", name="Erase").click()
    page.get_by_role("button", name="Erase these 3 runs").click()
    expect(page.get_by_role("status")).to_have_text("3 erased, 0 skipped, 0 refused.")
    screen.open("/audit?by=ticker&q=" + parked[0])
    for action in ("run.cancel_requested", "run.erased"):
        expect(page.get_by_role("main")).to_contain_text(action)
    for run_id in first["runs"]:
        caller.post(f"/runs/{run_id}/cancel", {})
    assert screen.complaints == []


def test_a_ticked_run_that_leaves_the_list_stays_and_the_question_leaves_it_out(
    caller: Caller, workflows: dict[str, str], signed_in: NewPerson
) -> None:
    parked = [caller.parked(workflows["Park"], labels={"batch": "leaving"})["run_id"] for _ in range(2)]
    screen = signed_in("late-ticker", ROLE_ADMINISTRATOR)
    page = screen.page
    screen.open("/runs?q=batch%3Dleaving&status=waiting_for_approval")
    page.get_by_label(f"Select run {parked[1]}").check()
    for run_id in parked:
        caller.post(f"/runs/{run_id}/cancel", {})
    expect(page.locator("#found")).to_contain_text("No run matches.")
    expect(page.locator("td :checked")).to_have_count(1)
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("group", name="Runs left out")).to_contain_text("It has ended already.")
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
