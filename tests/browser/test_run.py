"""The page of a run in a real browser: one test for each thing that people do with it."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NewPerson, agree
from tests.support.client import Caller
from tests.support.service import Service
from workflow_api.v1.users_pb2 import ROLE_ADMINISTRATOR, ROLE_APPROVER


@pytest.fixture(scope="module")
def caller(console: Service) -> Caller:
    return console.new_caller()


@pytest.fixture(scope="module")
def workflows(console: Service) -> dict[str, str]:
    return console.admin.apply_test_workflows()


def test_somebody_reads_where_a_run_stands_and_copies_its_id(
    caller: Caller, workflows: dict[str, str], signed_in: NewPerson
) -> None:
    run_id = caller.parked(workflows["Gate"], input_text="words", client_reference="order-7")["run_id"]
    screen = signed_in("reading-where", ROLE_ADMINISTRATOR)
    screen.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    screen.open(f"/runs/{run_id}")
    counted = screen.page.locator("[data-elapsed]")
    first = counted.inner_text()
    expect(counted).not_to_have_text(first)
    screen.page.get_by_role("button", name="Copy the run's id").click()
    assert screen.page.evaluate("navigator.clipboard.readText()") == run_id
    screen.page.get_by_text("More").click()
    screen.page.get_by_role("link", name="This run in curl and Python").click()
    screen.page.locator("#use-it summary").click()
    expect(screen.page.locator("#read-shell")).to_contain_text(f"/api/v1/runs/{run_id}")
    assert screen.complaints == []


def test_a_refused_copy_says_how_to_copy_by_hand(
    caller: Caller, workflows: dict[str, str], signed_in: NewPerson
) -> None:
    run_id = caller.parked(workflows["Gate"], input_text="words")["run_id"]
    screen = signed_in("refusing", ROLE_ADMINISTRATOR)
    # Whatever is not granted then is refused.
    screen.page.context.grant_permissions(["clipboard-read"])
    screen.open(f"/runs/{run_id}")
    screen.page.get_by_role("button", name="Copy the run's id").click()
    expect(screen.page.get_by_role("button", name="Select the text and copy it")).to_be_visible()
    assert screen.complaints == []


def test_a_step_is_selected_in_graph_and_timeline_with_its_value_files_and_log(
    console: Service, caller: Caller, workflows: dict[str, str], signed_in: NewPerson
) -> None:
    run_id = caller.parked(workflows["Gate"], input_text="some words")["run_id"]
    (approval,) = caller.get(f"/runs/{run_id}/approvals").json()["items"]
    console.admin.decide(approval["approval_id"], approve=True)
    caller.wait(run_id)
    screen = signed_in("selecting", ROLE_ADMINISTRATOR)
    screen.open(f"/runs/{run_id}")
    screen.page.locator(".timeline a").first.click()
    expect(screen.page.locator("#step h2")).to_contain_text("before")
    expect(screen.page.locator("#step")).to_contain_text("some words")
    expect(screen.page.locator("#step .files")).to_contain_text("before/echo.txt")
    expect(screen.page.locator('#board a[aria-current="true"]')).to_have_count(2)
    screen.page.locator(".graph a").nth(2).click()
    expect(screen.page.locator("#step h2")).to_contain_text("after")
    assert screen.complaints == []


def test_events_are_sentences_and_are_filtered(caller: Caller, workflows: dict[str, str], signed_in: NewPerson) -> None:
    run_id = caller.finished(workflows["Echo"], input_text="some words")["run_id"]
    screen = signed_in("filtering", ROLE_APPROVER)
    screen.open(f"/runs/{run_id}")
    screen.page.locator("#tabs").get_by_role("link", name="Events").click()
    expect(screen.page.locator("#log")).to_contain_text("echo completed and left 1 file.")
    screen.page.get_by_label("Show").select_option("steps")
    screen.page.get_by_role("button", name="Filter").click()
    expect(screen.page.locator("#log tbody tr")).to_have_count(2)
    screen.page.locator("#log summary").first.click()
    expect(screen.page.locator("#log details code").first).to_be_visible()
    assert screen.complaints == []


def test_outputs_are_previewed_and_downloaded(caller: Caller, workflows: dict[str, str], signed_in: NewPerson) -> None:
    run_id = caller.finished(workflows["Tree"])["run_id"]
    screen = signed_in("fetching", ROLE_APPROVER)
    screen.open(f"/runs/{run_id}?tab=results")
    with screen.page.expect_download() as zipped:
        screen.page.get_by_role("link", name="Download all as zip").click()
    assert zipped.value.suggested_filename == f"{run_id}.zip"
    screen.page.locator("#results").get_by_role("link", name="grow/table.csv", exact=True).click()
    expect(screen.page.locator("table th").first).to_have_text("a")
    with screen.page.expect_download() as file:
        screen.page.get_by_role("link", name="Download").click()
    assert file.value.path().read_bytes() == b"a,b\n1,2\n"
    assert screen.complaints == []


def test_a_log_is_searched_unwrapped_and_downloaded(
    caller: Caller, workflows: dict[str, str], signed_in: NewPerson
) -> None:
    run_id = caller.finished(workflows["Failure"])["run_id"]
    screen = signed_in("searching", ROLE_ADMINISTRATOR)
    screen.open(f"/runs/{run_id}")
    expect(screen.page.locator("#step .log")).to_contain_text("the sky fell")
    screen.page.get_by_role("link", name="Search and download it").click()
    screen.page.get_by_label("Search").fill("SKY")
    screen.page.get_by_role("button", name="Search").click()
    expect(screen.page.locator("mark").first).to_have_text("sky")
    screen.page.get_by_role("link", name="Do not wrap lines").click()
    expect(screen.page.locator("pre.nowrap")).to_have_count(1)
    with screen.page.expect_download() as log:
        screen.page.get_by_role("link", name="Download").click()
    assert "the sky fell" in log.value.path().read_text()
    assert screen.complaints == []


def test_a_run_is_run_again_with_edited_inputs_compared_and_erased(
    caller: Caller, workflows: dict[str, str], signed_in: NewPerson
) -> None:
    run_id = caller.finished(workflows["Echo"], input_text="first words")["run_id"]
    screen = signed_in("repeating", ROLE_ADMINISTRATOR)
    agree(screen.page)
    screen.open(f"/runs/{run_id}")
    screen.page.get_by_role("link", name="Run again").click()
    expect(screen.page).to_have_url(screen.address(f"/workflows/{workflows['Echo']}/start?run={run_id}"))
    screen.page.get_by_label("Text").fill("other words")
    screen.page.get_by_role("button", name="Start the run").click()
    expect(screen.page.get_by_role("status")).to_have_text("The run has started.")
    expect(screen.page.locator("#summary .badge")).to_have_text("completed")
    expect(screen.page.locator("#facts")).to_contain_text("console user:repeating")

    screen.page.get_by_text("More").click()
    screen.page.get_by_role("link", name="Compare with another run").click()
    screen.page.get_by_label("With").fill(run_id)
    screen.page.get_by_role("button", name="Compare").click()
    expect(screen.page.get_by_role("group", name="Parts of the result that differ")).to_contain_text("first words")

    screen.open(f"/runs/{run_id}")
    screen.page.get_by_text("More").click()
    screen.page.get_by_label("Reason").fill("Asked for")
    screen.page.get_by_role("button", name="Erase the data").click()
    expect(screen.page.locator("#summary")).to_contain_text("data erased")
    assert screen.complaints == []
