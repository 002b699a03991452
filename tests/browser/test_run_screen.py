"""The screen of a run: head, tabs, and the chosen step beside the graph, by mouse, keyboard and without script."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import NewPerson, Screen
from tests.browser.sweep import CUT, findings
from tests.support.client import Caller
from tests.support.poll import until
from tests.support.service import Service
from workflow_api.v1.users_pb2 import ROLE_ADMINISTRATOR, ROLE_APPROVER

COUNT = 20
LAST = COUNT - 1
MOST_BYTES = 150_000
WIDTHS = (390, 768, 1024, 1280, 1440)
WORKFLOWS = """
kind: Agent
name: of-the-screen
type: python
code: |
  import time
  def run(context):
      time.sleep((context.parameters or {}).get("seconds") or 0)
      (context.outputs / "rows.csv").write_text("a,b\\n1,2\\n")
      print("done", flush=True)
      return {"seen": list(range(60))}
---
kind: Agent
name: of-the-screen-that-falls
type: python
code: |
  def run(context):
      raise ValueError("row 17 has no customer")
"""


def workflow(name: str, *, falls: bool = False, gate: bool = False) -> str:
    """A chain of steps with branches; the last one fails, or the second waits for a person, where asked."""
    lines = ["---", "kind: Workflow", f"name: {name}", "status: active"]
    lines += ["parameters: [{name: seconds, type: number, default: 0}]", "steps:"]
    for n in range(COUNT):
        needs = ", ".join(f"s{each:02}" for each in sorted({max(n - 1, 0), max(n - 3, 0)}) if n)
        agent = "of-the-screen-that-falls" if falls and n == LAST else "of-the-screen"
        work = "approval: {title: Go on?}" if gate and n == 1 else f"agent: {agent}"
        lines.append(f'  - {{step: s{n:02}, name: "Stage {n} of the pipeline", {work}, needs: [{needs}]}}')
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def caller(console: Service) -> Caller:
    return console.new_caller()


@pytest.fixture(scope="module")
def workflows(console: Service) -> dict[str, str]:
    return console.admin.apply(
        WORKFLOWS + workflow("Long") + workflow("Long that falls", falls=True) + workflow("Long with a gate", gate=True)
    )


@pytest.fixture(scope="module")
def failed(caller: Caller, workflows: dict[str, str]) -> str:
    run_id: str = caller.finished(workflows["Long that falls"], input_text="words")["run_id"]
    return run_id


@pytest.fixture
def wide(signed_in: NewPerson, request: pytest.FixtureRequest) -> Iterator[Screen]:
    screen = signed_in(request.node.name[:60].replace("_", "-").replace("[", "-").replace("]", ""), ROLE_ADMINISTRATOR)
    screen.page.set_viewport_size({"width": 1440, "height": 900})
    yield screen
    assert screen.complaints == []


def chosen(page: Page) -> list[str]:
    """The steps that are marked as chosen in the graph and in the timeline."""
    found: list[str] = page.locator('.graph a[aria-current="true"], a.bar[aria-current="true"]').evaluate_all(
        "(all) => all.map((link) => new URL(link.getAttribute('href'), location.href).searchParams.get('step'))"
    )
    return found


def expect_chosen(page: Page, step: str) -> None:
    expect(page.locator(f"#of-{step}")).to_be_visible()
    assert chosen(page) == [step, step]


def plain_page(screen: Screen, path: str, width: int = 1440) -> Page:
    """The page in a browser without script."""
    browser = screen.page.context.browser
    assert browser is not None
    context = browser.new_context(
        java_script_enabled=False,
        storage_state=screen.page.context.storage_state(),
        viewport={"width": width, "height": 900},
    )
    page = context.new_page()
    page.goto(screen.address(path))
    return page


def test_the_step_that_failed_is_beside_the_graph_within_the_screen(wide: Screen, failed: str) -> None:
    wide.open(f"/runs/{failed}")
    page = wide.page
    expect_chosen(page, f"s{LAST}")
    graph, panel = (page.locator(name).bounding_box() for name in (".graph .dag", "#step"))
    assert graph is not None
    assert panel is not None
    assert panel["x"] >= graph["x"] + graph["width"]
    assert panel["y"] + panel["height"] <= 900
    assert graph["y"] + graph["height"] <= 900
    assert page.locator(".graph .dag").evaluate("(frame) => frame.scrollWidth <= frame.clientWidth + 1")
    expect(page.locator("#why")).to_contain_text("Stage 19 of the pipeline failed: ValueError: row 17 has no customer")
    expect(page.locator("#step")).to_contain_text("What to do:")


def test_head_and_step_stay_while_the_page_scrolls(wide: Screen, failed: str) -> None:
    wide.open(f"/runs/{failed}")
    page = wide.page
    page.evaluate("scrollTo({top: document.documentElement.scrollHeight, behavior: 'instant'})")
    page.wait_for_function("scrollY > 100")
    for place in ("h1", "#summary .badge", "#why", "#step h2"):
        expect(page.locator(place).first).to_be_in_viewport()
    expect(page.get_by_role("group", name="Actions").get_by_role("link", name="Run again")).to_be_in_viewport()


def test_a_choice_in_graph_or_timeline_marks_both_and_is_in_the_address(wide: Screen, failed: str) -> None:
    wide.open(f"/runs/{failed}")
    page = wide.page
    page.evaluate("window.stayed = true")
    page.locator("#row-s03 a").click()
    expect_chosen(page, "s03")
    assert wide.path == f"/runs/{failed}?step=s03"
    page.locator(".graph a[href*='step=s05']").click()
    expect_chosen(page, "s05")
    assert wide.path == f"/runs/{failed}?step=s05"
    page.go_back()
    expect_chosen(page, "s03")
    assert page.evaluate("window.stayed"), "no page was loaded"
    page.reload()
    expect_chosen(page, "s03")


def test_the_screen_is_used_by_keyboard_alone(wide: Screen, failed: str) -> None:
    wide.open(f"/runs/{failed}")
    page = wide.page
    page.locator(".graph a[href*='step=s02']").focus()
    page.keyboard.press("Enter")
    expect_chosen(page, "s02")
    assert page.evaluate("document.activeElement.closest('.graph') !== null"), "the focus stays"
    width = page.locator(".graph svg").evaluate("(svg) => svg.getBoundingClientRect().width")
    page.keyboard.press("+")
    assert page.locator(".graph svg").evaluate("(svg) => svg.getBoundingClientRect().width") > width
    page.keyboard.press("0")
    assert page.locator(".graph svg").evaluate("(svg) => svg.getBoundingClientRect().width") == width
    page.get_by_role("button", name="Larger").press("Enter")
    assert page.locator(".graph svg").evaluate("(svg) => svg.getBoundingClientRect().width") > width
    page.get_by_role("group", name="Actions").get_by_text("More").press("Enter")
    expect(page.get_by_role("link", name="Compare with another run")).to_be_visible()
    page.get_by_role("link", name="Compare with another run").focus()
    page.keyboard.press("Escape")
    expect(page.get_by_role("link", name="Compare with another run")).to_be_hidden()
    # A step that the panel names is chosen there, and the focus stays in the panel.
    page.locator("#step h3 + h4 a").first.press("Enter")
    expect_chosen(page, "s00")
    assert page.evaluate("document.activeElement.id") == "step"


def test_tabs_are_addresses_and_keep_the_choice(wide: Screen, failed: str) -> None:
    wide.open(f"/runs/{failed}?step=s03")
    page = wide.page
    tabs = page.get_by_role("navigation", name="Parts of the run")
    for name, shown in (("Results", "#made"), ("Events", "#log"), ("Inputs", "#given")):
        tabs.get_by_role("link", name=name).click()
        expect(page.locator(shown)).to_be_visible()
        assert wide.path == f"/runs/{failed}?tab={name.lower()}&step=s03"
        expect(tabs.locator('[aria-current="page"]')).to_contain_text(name)
    tabs.get_by_role("link", name="Steps").click()
    expect_chosen(page, "s03")


def test_addresses_of_before_the_tabs_lead_to_them(wide: Screen, failed: str) -> None:
    for old, shown in (("#made", "#made"), ("#given", "#given"), ("?kind=steps#events", "#log"), ("#events", "#log")):
        wide.open("/")
        wide.open(f"/runs/{failed}{old}")
        expect(wide.page.locator(shown)).to_be_visible()


def test_waits_are_folded_so_that_short_steps_are_seen(
    console: Service, caller: Caller, workflows: dict[str, str], wide: Screen
) -> None:
    run_id = caller.parked(workflows["Long with a gate"])["run_id"]
    wide.page.wait_for_timeout(3_000)
    (approval,) = caller.get(f"/runs/{run_id}/approvals").json()["items"]
    console.admin.decide(approval["approval_id"], approve=True)
    caller.wait(run_id)
    page = wide.page
    wide.open(f"/runs/{run_id}?waits=full&step=s03")
    bar = page.locator("#row-s00 rect")
    full = bar.evaluate("(bar) => bar.getBoundingClientRect().width")
    page.get_by_role("link", name="Fold 1 wait").click()
    expect(page.get_by_role("link", name="Show waits in full")).to_be_visible()
    assert wide.path == f"/runs/{run_id}?step=s03&waits=folded"
    assert bar.evaluate("(bar) => bar.getBoundingClientRect().width") > full
    expect(page.locator("#board")).to_contain_text("Folded, as nothing executed: ")
    expect_chosen(page, "s03")
    plain = plain_page(wide, f"/runs/{run_id}?waits=folded")
    plain.get_by_role("link", name="Show waits in full").click()
    expect(plain.get_by_role("link", name="Fold 1 wait")).to_be_visible()
    plain.context.close()


def test_without_script_links_choose_and_the_step_is_beside_the_graph(wide: Screen, failed: str) -> None:
    page = plain_page(wide, f"/runs/{failed}")
    page.locator(".graph a[href*='step=s04']").click()
    expect_chosen(page, "s04")
    expect(page.locator("#step h2")).to_be_in_viewport()
    expect(page.get_by_role("group", name="Size of the graph")).to_be_hidden()
    page.get_by_role("group", name="Actions").get_by_text("More").click()
    page.get_by_role("link", name="This run in curl and Python").click()
    expect(page.locator("#use-it")).to_be_visible()
    page.context.close()
    narrow = plain_page(wide, f"/runs/{failed}", 390)
    narrow.locator("#row-s04 a").click()
    expect(narrow.locator("#step h2")).to_be_in_viewport()
    narrow.context.close()


def test_a_running_run_is_watched_without_losing_the_chosen_step(
    console: Service, caller: Caller, workflows: dict[str, str], wide: Screen
) -> None:
    run_id = caller.parked(workflows["Long with a gate"])["run_id"]
    wide.open(f"/runs/{run_id}")
    page = wide.page
    # So low that the panel of a step scrolls.
    page.set_viewport_size({"width": 1440, "height": 560})
    expect_chosen(page, "s01")
    page.locator("#row-s00 a").click()
    expect_chosen(page, "s00")
    page.get_by_role("button", name="Larger").click()
    value = page.locator("#step pre").last
    value.evaluate("(pre) => { pre.scrollTop = 90; pre.mine = true; }")
    scrolled = page.locator("#step").evaluate("(panel) => { panel.scrollTop = 40; return panel.scrollTop; }")
    assert scrolled > 0
    page.locator("#row-s00 a").focus()
    (approval,) = caller.get(f"/runs/{run_id}/approvals").json()["items"]
    console.admin.decide(approval["approval_id"], approve=True)
    caller.wait(run_id)
    expect(page.locator("#summary .badge")).to_have_text("completed")
    expect(page.locator(f"#row-s{LAST} .badge")).to_have_text("completed")
    expect_chosen(page, "s00")
    assert wide.path == f"/runs/{run_id}?step=s00"
    assert value.evaluate("(pre) => pre.mine && pre.scrollTop") == 90
    assert page.locator("#step").evaluate("(panel) => panel.scrollTop") == scrolled
    assert page.evaluate("document.activeElement.closest('li').id") == "row-s00"
    assert page.evaluate("document.documentElement.style.getPropertyValue('--zoom')") == "1.5"


def test_a_run_of_twenty_steps_is_small_with_its_style_and_script(wide: Screen, failed: str) -> None:
    sizes: list[int] = []
    wide.page.on("response", lambda answer: sizes.append(len(answer.body())))
    wide.open(f"/runs/{failed}")
    wide.page.wait_for_load_state("networkidle")
    assert 0 < sum(sizes) < MOST_BYTES, sizes


SMALL = """() => [...document.querySelectorAll("main :is(a, button, summary)")].filter((each) => {
  const box = each.getBoundingClientRect();
  const inText = each.closest("p, dd, h4, .facts, .files, .attempts");
  return each.checkVisibility() && !inText && (box.width < 24 || box.height < 24);
}).map((each) => each.outerHTML.slice(0, 100))"""


@pytest.mark.parametrize("width", WIDTHS)
def test_texts_of_the_graph_can_be_read_on_every_screen(wide: Screen, failed: str, width: int) -> None:
    page = wide.page
    page.set_viewport_size({"width": width, "height": 844})
    wide.open(f"/runs/{failed}")
    smallest = """() => Math.min(...[...document.querySelectorAll(".graph .dag text")].map(
        (text) => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a))"""
    assert page.evaluate(smallest) >= 11
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the frame scrolls, not the page"
    expect(page.locator(".graph a[aria-current] rect")).to_be_in_viewport()
    fits = page.locator(".graph .dag").evaluate("(frame) => frame.scrollWidth <= frame.clientWidth")
    assert fits == (width > 390)


WITHIN = """(graph) => {
  const [frame, step] = [graph, graph.querySelector("[aria-current] rect")].map((each) => each.getBoundingClientRect());
  return step.left >= frame.left && step.right <= frame.right && step.top >= frame.top && step.bottom <= frame.bottom;
}"""


def test_the_selected_step_comes_into_sight_of_the_graph_after_a_choice_and_another_size(
    wide: Screen, failed: str
) -> None:
    page = wide.page
    wide.open(f"/runs/{failed}?step=s02")
    graph = page.locator(".graph .dag")
    assert graph.evaluate(WITHIN)
    page.locator(".timeline a.bar").last.click()
    expect(page.locator("#step .of-step")).to_have_id(f"of-s{LAST:02}")
    assert graph.evaluate(WITHIN)
    page.set_viewport_size({"width": 390, "height": 844})
    until(lambda: graph.evaluate(WITHIN), "the selected step within the frame")


@pytest.mark.parametrize("width", WIDTHS)
def test_the_screen_fits_and_excludes_nobody(
    caller: Caller, workflows: dict[str, str], failed: str, signed_in: NewPerson, width: int
) -> None:
    waiting = caller.parked(workflows["Long with a gate"])["run_id"]
    screen = signed_in(f"fits-{width}", ROLE_ADMINISTRATOR)
    page = screen.page
    page.set_viewport_size({"width": width, "height": 844})
    wrong: dict[str, Any] = {}
    for path in (f"/runs/{failed}", f"/runs/{waiting}", f"/runs/{failed}?tab=results", f"/runs/{failed}?tab=inputs"):
        screen.open(path)
        found = [*page.evaluate(CUT), *page.evaluate(SMALL), *findings(page), *findings(page, "dark")]
        if found:
            wrong[path] = found
    assert wrong == {}
    screen.open(f"/runs/{failed}")
    order = [page.locator(place).bounding_box() for place in (".graph", ".timeline", "#step")]
    if width < 1024:
        tops = [box["y"] for box in order if box is not None]
        assert tops == sorted(tops)
    caller.post(f"/runs/{waiting}/cancel", {})
    assert screen.complaints == []


def test_an_approver_sees_no_action_that_is_not_theirs(failed: str, signed_in: NewPerson) -> None:
    screen = signed_in("screen-approver", ROLE_APPROVER)
    screen.open(f"/runs/{failed}")
    actions = screen.page.get_by_role("group", name="Actions")
    expect(actions.get_by_role("link", name="Run again")).to_have_count(0)
    expect(actions.get_by_role("link", name="Resume")).to_have_count(0)
    expect(actions.get_by_text("Cancel", exact=True)).to_have_count(0)
    expect(actions.get_by_text("More")).to_be_visible()
    assert screen.complaints == []
