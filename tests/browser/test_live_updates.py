"""Live updates and printing in a real browser: what somebody is doing on an open page stays as it is."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import NewPerson, Screen
from tests.support.client import Caller
from tests.support.service import Service
from workflow_api.v1.users_pb2 import ROLE_ADMINISTRATOR

MARK_ALL = """() => {
  for (const each of document.querySelectorAll("[data-live] *")) each.seen = true;
  return document.querySelector("[data-live]").seen = true;
}"""


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
    page.locator("#given-text summary").click()
    page.locator("#log details summary").first.click()
    text = page.locator("#given-text pre")
    text.evaluate("(pre) => { pre.scrollTop = 120; }")
    page.locator("#log td").first.evaluate(
        """(cell) => {
          const range = document.createRange();
          range.selectNodeContents(cell);
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
    assert page.locator("#given-text").evaluate("(details) => details.open")
    assert page.locator("#log details").first.evaluate("(details) => details.open")
    assert screen.complaints == []


def test_an_update_replaces_only_what_has_changed(
    console: Service, caller: Caller, workflows: dict[str, str], signed_in: NewPerson
) -> None:
    screen = signed_in("watching", ROLE_ADMINISTRATOR)
    run_id = parked(caller, workflows, screen)
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
