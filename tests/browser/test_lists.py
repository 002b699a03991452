"""Lists in a real browser: rows by name, chips, order, changes of many runs, and whole words at every width."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import NewPerson, Screen
from tests.browser.sweep import wrong_in_both_schemes
from tests.support.client import Caller
from tests.support.service import Service
from workflow_api.v1.users_pb2 import ROLE_ADMINISTRATOR

WIDTHS = (390, 768, 1024, 1440)
LISTS = (
    *("/runs", "/workflows", "/agents", "/keys", "/schedules", "/people"),
    *("/resources/environments", "/resources/connectors"),
)
# Words of letters and digits whose characters are on more than one line; a word of more than 32 may break.
BROKEN = r"""() => {
  const broken = [];
  const walker = document.createTreeWalker(document.getElementById("content"), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (!node.parentElement.checkVisibility() || node.parentElement.closest(".hidden, thead, option")) continue;
    for (const word of node.data.matchAll(/[\p{L}\p{N}]{2,32}/gu)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map((rect) => Math.round(rect.top))).size > 1) broken.push(word[0]);
    }
  }
  return broken;
}"""
SMALL = """() => [...document.querySelectorAll(
  "tbody button, tbody a.clamped, .runs .name, tbody label, .chips a, .tabs a, .bar button")]
  .filter((each) => each.checkVisibility())
  .map((each) => [each.textContent.trim(), each.getBoundingClientRect()])
  .filter(([, box]) => box.width < 24 || box.height < 24)
  .map(([text, box]) => `${text}: ${box.width} x ${box.height}`)"""

NAME = "Reconciliation of intercompany statements of account, monthly, with corrections"
LONG = f"""
kind: Environment
name: environment-with-a-long-name-for-the-reconciliation
python: {{packages: [alpha]}}
---
kind: Connector
name: connector-with-a-long-name-for-the-reconciliation
type: s3
bucket: a-bucket-with-a-long-name-of-reconciliation
prefixes: [incoming/2026/documents/of/the/reconciliation/department/]
endpoint_url: http://127.0.0.1:9
secret: a-secret-that-no-setting-names
---
kind: Agent
name: reconciliation_agent_with_a_long_name_and_underscores_only
type: python
code: |
  def run(context):
      raise RuntimeError("The reconciliation of /srv/incoming/statements_of_2026/september.csv has no column total")
---
kind: Workflow
name: {NAME}
description: Internationalisation of reconciliations_with_long_identifiers_of_the_department
steps:
  - {{step: reconcile, agent: reconciliation_agent_with_a_long_name_and_underscores_only}}
status: active
schedules:
  - name: nightly-reconciliation-with-a-long-name
    cron: "0 2 1,15 * MON-FRI"
    timezone: America/Argentina/Buenos_Aires
    paused: true
"""


@pytest.fixture(scope="session")
def caller(console: Service) -> Caller:
    return console.new_caller(name="warehouse-integration-of-the-reconciliation-department")


@pytest.fixture(scope="session")
def failing(console: Service) -> str:
    applied = console.admin.apply(LONG)
    (workflow,) = applied.values()
    return workflow


@pytest.fixture(scope="session")
def failed(caller: Caller, failing: str) -> list[str]:
    """Runs that failed, the oldest first."""
    reference = "incoming/statements_of_2026/" + "september_" * 12
    labels = {"batch": "lists", "department": "reconciliation_of_2026"}
    return [caller.finished(failing, client_reference=reference, labels=labels)["run_id"] for _ in range(3)]


def ids(page: Page) -> list[str]:
    found: list[str] = page.locator("#found td [name=run_id]").evaluate_all("boxes => boxes.map((box) => box.value)")
    return found


def test_a_failed_run_is_named_by_its_workflow_says_why_and_its_id_is_copied(
    failed: list[str], signed_in: NewPerson
) -> None:
    screen = signed_in("copier", ROLE_ADMINISTRATOR)
    page = screen.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    screen.open("/runs?q=batch%3Dlists")
    row = page.locator("#found tbody tr").first
    expect(row.get_by_role("link").first).to_have_text(NAME)
    why = row.locator(".failure")
    expect(why).to_contain_text("has no column total")
    box = why.bounding_box()
    assert box is not None
    assert box["height"] < 30
    row.get_by_role("button", name=f"Copy the id {failed[-1]}").click()
    expect(row.get_by_role("button", name="Copy")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == failed[-1]
    assert screen.complaints == []


def test_chips_remove_one_filter_each_and_the_head_of_the_column_turns_the_order(
    failed: list[str], signed_in: NewPerson
) -> None:
    screen = signed_in("sorter", ROLE_ADMINISTRATOR)
    page = screen.page
    screen.open("/runs?q=batch%3Dlists&status=failed")
    assert ids(page) == failed[::-1]
    page.get_by_role("link", name="Created").click()
    assert "sort=oldest" in screen.path
    expect(page.get_by_role("columnheader", name="Created")).to_have_attribute("aria-sort", "ascending")
    assert ids(page) == failed
    page.get_by_role("link", name="Remove the filter Status: failed").click()
    assert screen.path == "/runs?q=batch%3Dlists&sort=oldest"
    expect(page.get_by_role("list", name="Filters").get_by_role("listitem")).to_have_count(2)
    page.get_by_role("link", name="Failed since yesterday").click()
    expect(page.get_by_role("link", name="Failed since yesterday")).to_have_attribute("aria-current", "true")
    expect(page.get_by_role("link", name="Remove the filter Status: failed")).to_be_visible()
    assert screen.complaints == []


def test_heads_of_columns_order_by_duration_on_a_telephone_as_well(failed: list[str], signed_in: NewPerson) -> None:
    screen = signed_in("orderer", ROLE_ADMINISTRATOR)
    page = screen.page
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 800})
        screen.open("/runs?q=batch%3Dlists")
        page.get_by_role("link", name="Duration").click()
        assert "sort=-duration" in screen.path
        expect(page.get_by_role("columnheader", name="Duration")).to_have_attribute("aria-sort", "descending")
        page.get_by_role("link", name="Duration").click()
        assert "sort=duration" in screen.path
        assert sorted(ids(page)) == sorted(failed)
        page.get_by_role("link", name="Created").click()
        assert ids(page) == failed[::-1]
    assert screen.complaints == []


@pytest.fixture
def without_script(chromium: Browser, console: Service) -> Iterator[Screen]:
    context = chromium.new_context(viewport={"width": 1280, "height": 800}, java_script_enabled=False)
    yield Screen(context.new_page(), console.ready["console"])
    context.close()


def resume_all(page: Page, run_ids: list[str]) -> None:
    for run_id in run_ids:
        page.get_by_label(f"Select run {run_id}", exact=True).check()
    page.get_by_role("group", name="Change the chosen runs").get_by_role("button", name="Resume").click()
    number = len(run_ids)
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Resume {number} runs?")
    page.get_by_role("button", name=f"Resume these {number} runs").click()
    expect(page.get_by_role("status")).to_have_text(f"{number} resumed, 0 skipped, 0 refused.")
    expect(page.get_by_role("group", name="Outcomes").locator("tbody tr")).to_have_count(number)
    expect(page.get_by_role("group", name="Outcomes")).to_contain_text("New run")


def test_failed_runs_are_resumed_together_from_a_bar_that_stays_in_sight(
    caller: Caller, failing: str, signed_in: NewPerson
) -> None:
    run_ids = [caller.finished(failing, labels={"batch": "bar"})["run_id"] for _ in range(3)]
    screen = signed_in("resumer", ROLE_ADMINISTRATOR)
    page = screen.page
    page.set_viewport_size({"width": 1280, "height": 500})
    screen.open("/runs?q=batch%3Dbar&status=failed")
    page.get_by_label(f"Select run {run_ids[2]}", exact=True).check()
    page.evaluate("scrollTo(0, 0)")
    bar = page.get_by_role("group", name="Change the chosen runs")
    expect(bar).to_contain_text("1 chosen:")
    expect(bar).to_be_in_viewport(ratio=1)
    resume_all(page, run_ids)
    assert screen.complaints == []


def test_failed_runs_are_resumed_together_without_script(
    caller: Caller, failing: str, signed_in: NewPerson, without_script: Screen
) -> None:
    run_ids = [caller.finished(failing, labels={"batch": "plain"})["run_id"] for _ in range(2)]
    signed_in("plain-resumer", ROLE_ADMINISTRATOR)
    without_script.open("/sign-in")
    without_script.sign_in("plain-resumer", "the password of plain-resumer")
    without_script.open("/runs?q=batch%3Dplain&status=failed")
    resume_all(without_script.page, run_ids)


def test_no_list_breaks_a_word_or_has_a_target_below_24_pixels(
    failed: list[str], console: Service, signed_in: NewPerson
) -> None:
    screen = signed_in("reader-of-lists-with-a-long-name", ROLE_ADMINISTRATOR)
    wrong = {}
    for path in LISTS:
        screen.open(path)
        for width in WIDTHS:
            screen.page.set_viewport_size({"width": width, "height": 900})
            found = [*screen.page.evaluate(BROKEN), *screen.page.evaluate(SMALL)]
            if (wide := screen.page.evaluate("document.documentElement.scrollWidth")) > width:
                found.append(f"{wide} wide")
            if found:
                wrong[f"{path} at {width}"] = found
    assert wrong == {}
    assert screen.complaints == []


def test_at_390_pixels_a_row_is_a_card_in_the_order_of_the_columns(failed: list[str], signed_in: NewPerson) -> None:
    screen = signed_in("card-reader", ROLE_ADMINISTRATOR)
    page = screen.page
    page.set_viewport_size({"width": 390, "height": 844})
    screen.open("/runs?q=batch%3Dlists")
    card = page.locator("#found tbody tr").first
    name, why = card.get_by_role("link").first, card.locator(".failure")
    parts = [name, why, *card.locator("td:not(.choose, .what)").all()]
    tops = [box["y"] for part in parts if (box := part.bounding_box())]
    assert len(tops) == len(parts) == 7
    assert tops == sorted(tops)
    box = card.get_by_role("checkbox").bounding_box()
    assert box is not None
    assert abs(box["y"] - tops[0]) < 24
    expect(page.get_by_label("All of this page")).to_be_visible()
    expect(page.get_by_role("link", name="Created")).to_be_visible()
    assert wrong_in_both_schemes(page, "the list of runs") == {}
    assert screen.complaints == []


def test_a_view_is_saved_renamed_and_removed_without_script(
    failed: list[str], signed_in: NewPerson, without_script: Screen
) -> None:
    signed_in("saver", ROLE_ADMINISTRATOR)
    page = without_script.page
    without_script.open("/sign-in")
    without_script.sign_in("saver", "the password of saver")
    without_script.open("/runs?q=batch%3Dlists&status=failed")
    page.get_by_text("Save this view").click()
    page.get_by_label("Name", exact=True).fill("Failed of <lists>")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".notice")).to_have_text("The view Failed of <lists> is saved.")
    without_script.open("/runs")
    page.get_by_role("link", name="Failed of <lists>").click()
    assert ids(page) == failed[::-1]
    expect(page.get_by_role("link", name="Failed of <lists>")).to_have_attribute("aria-current", "true")
    expect(page.get_by_text("Save this view")).to_have_count(0)
    page.get_by_role("link", name="Edit your views").click()
    page.get_by_label("New name of Failed of <lists>").fill("Broken")
    page.get_by_role("button", name="Rename").click()
    expect(page.get_by_role("link", name="Broken")).to_have_attribute("href", "/runs?q=batch%3Dlists&status=failed")
    page.get_by_role("button", name="Remove").click()
    expect(page.get_by_role("link", name="Broken")).to_have_count(0)


def test_saved_views_fit_every_width_in_both_schemes(failed: list[str], signed_in: NewPerson) -> None:
    screen = signed_in("fitter", ROLE_ADMINISTRATOR)
    page = screen.page
    for path in ("/runs?status=failed", "/audit?actor=user%3Afitter", "/approvals/history?decision=approved"):
        screen.open(path)
        page.get_by_text("Save this view").click()
        page.get_by_label("Name", exact=True).fill(f"View of {path} with a long name to be cut"[:60])
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("list", name="Your views")).to_be_visible()
    wrong: dict[str, Any] = {}
    for path in ("/runs?status=completed", "/audit", "/approvals/history", "/preferences"):
        screen.open(path)
        wrong |= wrong_in_both_schemes(page, path)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            if (wide := page.evaluate("document.documentElement.scrollWidth")) > width:
                wrong[f"{path} at {width}"] = {"wide": wide}
            if found := page.evaluate(SMALL):
                wrong[f"{path} at {width}"] = found
    assert wrong == {}
    assert screen.complaints == []
