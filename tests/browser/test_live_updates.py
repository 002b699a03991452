"""Live updates and printing in a real browser: what somebody is doing on an open page stays as it is."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import NewPerson, Screen
from tests.browser.sweep import findings
from tests.support.client import Caller
from tests.support.service import Service
from workflow_api.v1.users_pb2 import ROLE_ADMINISTRATOR, ROLE_APPROVER, ROLE_VIEWER

WATCH = """() => {
  window.changes = [];
  // How long ago a time is changes by itself.
  const note = (records) => window.changes.push(...records.filter((each) => each.target.nodeName !== "TIME")
    .map((each) => `${each.type} ${each.target.nodeName} ${each.attributeName}`));
  new MutationObserver(note).observe(document,
    {attributes: true, characterData: true, childList: true, subtree: true});
}"""
DRAWN = "new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"
"""Waits for a frame, with what scripts do at the first."""
MARK_ALL = """() => {
  for (const each of document.querySelectorAll("[data-live] *")) each.seen = true;
  return document.querySelector("[data-live]").seen = true;
}"""


AT_END = "(pre) => pre.scrollHeight - pre.scrollTop - pre.clientHeight < 8"
TALKING = """
kind: Agent
name: talking
type: python
code: |
  import time
  def run(context):
      for number in range(100_000):
          print(f"line {number}", flush=True)
          if number > 200:
              time.sleep(0.2)
      return {}
---
kind: Workflow
name: Talking
status: active
steps: [{step: talk, agent: talking}]
"""


@pytest.fixture(scope="module")
def caller(console: Service) -> Caller:
    return console.new_caller()


@pytest.fixture(scope="module")
def workflows(console: Service) -> dict[str, str]:
    return console.admin.apply_test_workflows()


def decided(console: Service, caller: Caller, run_id: str) -> None:
    (approval,) = caller.get(f"/runs/{run_id}/approvals").json()["items"]
    console.admin.decide(approval["approval_id"], approve=True)
    caller.wait(run_id)


def parked(caller: Caller, workflows: dict[str, str], screen: Screen) -> str:
    run_id: str = caller.parked(workflows["Gate"], input_text="words " * 3_000)["run_id"]
    screen.open(f"/runs/{run_id}")
    return run_id


def completed(page: Page) -> None:
    expect(page.locator("#summary .badge").first).to_have_text("completed")


def test_an_update_leaves_focus_selection_scroll_and_what_is_open(
    console: Service, caller: Caller, workflows: dict[str, str], signed_in: NewPerson
) -> None:
    screen = signed_in("reading", ROLE_ADMINISTRATOR)
    run_id = parked(caller, workflows, screen)
    page = screen.page
    screen.open(f"/runs/{run_id}?step=before")
    page.locator("#about summary").click()
    text = page.locator("#step pre").last
    text.evaluate("(pre) => { pre.scrollTop = 120; }")
    page.locator("#step h2").evaluate(
        """(title) => {
          const range = document.createRange();
          range.selectNodeContents(title);
          getSelection().removeAllRanges();
          getSelection().addRange(range);
        }"""
    )
    selected = page.evaluate("getSelection().toString()")
    link = page.locator("#board a[href*='step=']").first
    link.focus()
    address = link.get_attribute("href")
    decided(console, caller, run_id)
    completed(page)
    assert page.evaluate("document.activeElement.getAttribute('href')") == address
    assert page.evaluate("getSelection().toString()") == selected != ""
    assert text.evaluate("(pre) => pre.scrollTop") == 120
    assert page.locator("#about").evaluate("(details) => details.open")
    assert screen.complaints == []


def test_an_update_replaces_only_what_has_changed(
    console: Service, caller: Caller, workflows: dict[str, str], signed_in: NewPerson
) -> None:
    screen = signed_in("watching", ROLE_ADMINISTRATOR)
    run_id = parked(caller, workflows, screen)
    screen.open(f"/runs/{run_id}?tab=events")
    screen.page.evaluate(MARK_ALL)
    rows: Any = screen.page.locator("#log tbody tr")
    before = rows.count()
    decided(console, caller, run_id)
    completed(screen.page)
    expect(rows).not_to_have_count(before)
    seen = rows.evaluate_all("(all) => all.map((row) => row.seen === true)")
    assert seen[:before] == [True] * before
    assert not any(seen[before:])


def test_a_list_that_grows_above_keeps_the_focus_on_the_same_run(
    caller: Caller, workflows: dict[str, str], signed_in: NewPerson
) -> None:
    first = caller.parked(workflows["Gate"], input_text="words")["run_id"]
    screen = signed_in("listing", ROLE_ADMINISTRATOR)
    screen.open("/runs")
    link = screen.page.locator(f"a[href='/runs/{first}']").first
    link.focus()
    later = caller.parked(workflows["Gate"], input_text="words")["run_id"]
    expect(screen.page.locator(f"a[href='/runs/{later}']").first).to_be_visible()
    assert screen.page.evaluate("document.activeElement.getAttribute('href')") == f"/runs/{first}"


@pytest.mark.parametrize(
    "path", ["/runs?status=completed", "/runs/{run_id}", "/runs/{run_id}?step=echo", "/runs/{run_id}?tab=events"]
)
def test_an_update_of_an_unchanged_page_touches_nothing(
    caller: Caller, workflows: dict[str, str], signed_in: NewPerson, path: str
) -> None:
    run_id = caller.finished(workflows["Echo"], input_text="words")["run_id"]
    caller.parked(workflows["Gate"], input_text="words")
    screen = signed_in(f"unchanged{len(path)}", ROLE_ADMINISTRATOR)
    page = screen.page
    screen.open(path.format(run_id=run_id))
    page.evaluate(DRAWN)
    page.evaluate(WATCH)
    for _ in range(2):
        with page.expect_response(lambda answer: answer.request.headers.get("x-refresh") == "automatic"):
            page.evaluate("document.dispatchEvent(new Event('refresh'))")
    page.evaluate(DRAWN)
    assert page.evaluate("window.changes") == []
    assert screen.complaints == []


def test_typed_text_ticks_and_choices_stay(
    console: Service, caller: Caller, workflows: dict[str, str], signed_in: NewPerson
) -> None:
    screen = signed_in("typing-on", ROLE_ADMINISTRATOR)
    run_id = parked(caller, workflows, screen)
    page = screen.page
    page.get_by_role("group", name="Actions").get_by_text("Cancel", exact=True).click()
    reason = page.get_by_label("Reason")
    reason.fill("too late")
    reason.evaluate("(field) => { field.focus(); field.setSelectionRange(2, 5); }")
    decided(console, caller, run_id)
    completed(page)
    expect(reason).to_be_focused()
    expect(reason).to_have_value("too late")
    assert reason.evaluate("(field) => [field.selectionStart, field.selectionEnd]") == [2, 5]
    another = caller.parked(workflows["Gate"], input_text="words")["run_id"]
    screen.open("/runs")
    page.get_by_label(f"Select run {another}").check()
    page.get_by_label("Status").select_option("failed")
    later = caller.parked(workflows["Gate"], input_text="words")["run_id"]
    expect(page.locator(f"#row-{later}")).to_be_visible()
    expect(page.get_by_label(f"Select run {another}")).to_be_checked()
    expect(page.get_by_label("Status")).to_have_value("failed")
    assert screen.complaints == []


def test_a_region_waits_while_somebody_selects_text_in_it(
    console: Service, caller: Caller, workflows: dict[str, str], signed_in: NewPerson
) -> None:
    screen = signed_in("selecting-text", ROLE_ADMINISTRATOR)
    run_id = parked(caller, workflows, screen)
    page = screen.page
    page.locator("#row-before .name").evaluate("(cell) => getSelection().selectAllChildren(cell)")
    before = page.locator("#board").inner_text()
    decided(console, caller, run_id)
    completed(page)
    assert page.locator("#board").inner_text() == before
    page.evaluate("getSelection().removeAllRanges()")
    expect(page.locator("#row-after .badge").first).to_have_text("completed")
    assert screen.complaints == []


def test_a_change_is_said_in_one_sentence(
    console: Service, caller: Caller, workflows: dict[str, str], signed_in: NewPerson
) -> None:
    screen = signed_in("listening", ROLE_ADMINISTRATOR)
    run_id = parked(caller, workflows, screen)
    page = screen.page
    news = page.locator("#news")
    expect(news).to_be_empty()
    decided(console, caller, run_id)
    expect(news).to_have_text(re.compile(r"^(Run|Step \w+|\d+ steps) completed(, [\w ]+)?\.$"))
    screen.open("/")
    another = caller.parked(workflows["Gate"], input_text="words")["run_id"]
    page.evaluate("document.dispatchEvent(new Event('refresh'))")
    expect(news).to_have_text("An approval waits.")
    caller.post(f"/runs/{another}/cancel", {})
    assert findings(page) == []
    assert screen.complaints == []


def test_the_number_of_waiting_approvals_is_on_every_page_and_follows(
    console: Service, caller: Caller, workflows: dict[str, str], signed_in: NewPerson
) -> None:
    caller.parked(workflows["Gate"], input_text="words")
    screen = signed_in("counting", ROLE_APPROVER)
    page = screen.page
    screen.open("/preferences")
    shown = page.locator("nav #waiting")
    before = int(shown.get_attribute("data-count") or "")
    expect(shown).to_have_text(f"{before} waiting")
    expect(page).to_have_title(f"({before}) Your settings · Workflow API")
    page.evaluate("window.stayed = true")
    run_id = caller.parked(workflows["Gate"], input_text="words")["run_id"]
    expect(shown).to_have_text(f"{before + 1} waiting")
    expect(page).to_have_title(f"({before + 1}) Your settings · Workflow API")
    assert page.evaluate("window.stayed")
    browser = page.context.browser
    assert browser is not None
    plain = browser.new_context(java_script_enabled=False, storage_state=page.context.storage_state())
    scriptless = plain.new_page()
    scriptless.goto(screen.address("/nothing"))
    expect(scriptless.locator("nav #waiting")).to_have_text(f"{before + 1} waiting")
    plain.close()
    caller.post(f"/runs/{run_id}/cancel", {})
    assert findings(page) == []
    assert screen.complaints == []


def test_who_decides_nothing_sees_no_number(caller: Caller, workflows: dict[str, str], signed_in: NewPerson) -> None:
    caller.parked(workflows["Gate"], input_text="words")
    screen = signed_in("not-counting", ROLE_VIEWER)
    screen.open("/runs")
    expect(screen.page.locator("#waiting")).to_have_count(0)
    expect(screen.page).to_have_title("Runs · Workflow API")


def test_a_log_follows_its_end_only_while_it_is_there(console: Service, signed_in: NewPerson) -> None:
    workflow = console.admin.apply(TALKING)["Talking"]
    caller = console.new_caller()
    run_id = caller.started(workflow)
    caller.wait_for_event(run_id, "step.started")
    screen = signed_in("following", ROLE_ADMINISTRATOR)
    page = screen.page
    screen.open(f"/runs/{run_id}/logs/talk")
    log = page.locator("pre.log")
    jump = page.get_by_role("button", name="Jump to the end")
    expect(log).to_contain_text("line 200")
    expect(jump).to_be_hidden()
    assert log.evaluate(AT_END)
    log.evaluate("(pre) => { pre.scrollTop = 40; }")
    expect(jump).to_be_visible()
    length = len(log.inner_text())
    page.wait_for_function("(length) => document.querySelector('pre.log').innerText.length > length", arg=length)
    assert log.evaluate("(pre) => pre.scrollTop") == 40
    assert findings(page) == []
    jump.click()
    expect(jump).to_be_hidden()
    assert log.evaluate(AT_END)
    length = len(log.inner_text())
    page.wait_for_function("(length) => document.querySelector('pre.log').innerText.length > length", arg=length)
    assert log.evaluate(AT_END)
    caller.post(f"/runs/{run_id}/cancel", {})
    assert screen.complaints == []


@pytest.mark.parametrize("width", [360, 720, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_printed_page_is_whole_and_light_and_has_no_navigation(
    caller: Caller, workflows: dict[str, str], signed_in: NewPerson, width: int, scheme: str
) -> None:
    screen = signed_in(f"printing-{width}-{scheme}", ROLE_ADMINISTRATOR)
    parked(caller, workflows, screen)
    page = screen.page
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(media="print", color_scheme=scheme)  # type: ignore[arg-type]  # one of its literals
    assert page.locator("header.top").is_hidden()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    cut = page.evaluate(
        """() => [...document.querySelectorAll("main *")].filter((each) => {
          const style = getComputedStyle(each);
          const clips = style.overflowX !== "visible" || style.overflowY !== "visible";
          return clips && !each.closest("svg, .hidden, .icon, thead") && each.checkVisibility()
            && (each.scrollWidth > each.clientWidth + 1 || each.scrollHeight > each.clientHeight + 1);
        }).map((each) => each.outerHTML.slice(0, 120))"""
    )
    assert cut == []
