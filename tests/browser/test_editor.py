"""The editor of manifests in a real browser: colours, help, errors and the graph while typing."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Route, expect

from tests.browser.conftest import NewPerson, Screen
from tests.browser.editing import write
from tests.browser.sweep import wrong_in_both_schemes
from tests.support.service import Service
from workflow_api.v1.users_pb2 import ROLE_ADMINISTRATOR

FLOW = """kind: Workflow
name: Drawn while typing
steps:
- step: first
  agent: echo
- step: second
  agent: echo
  needs: [first]
"""
MOST_BYTES = 150_000
"""Most bytes of the page with its style and scripts, as they cross the wire."""


@pytest.fixture
def editing(signed_in: NewPerson, request: pytest.FixtureRequest) -> Iterator[Screen]:
    screen = signed_in(request.node.name.replace("_", "-")[-60:], ROLE_ADMINISTRATOR)
    screen.open("/workflows/new")
    expect(screen.page.locator(".cm-editor")).to_be_visible()
    yield screen
    assert screen.complaints == []


def test_an_error_stands_at_its_line_while_typing_and_goes_when_it_is_mended(editing: Screen) -> None:
    page = editing.page
    write(page, FLOW.replace("needs:", "need:"))
    said = page.get_by_role("status").and_(page.locator("#verdict"))
    expect(said).to_contain_text("Line 8: steps[1].need is not a known field. Did you mean needs?")
    expect(page.locator(".cm-lintRange-error")).to_have_text("need: [first]")
    said.get_by_role("link", name="Line 8").click()
    page.keyboard.type("needs: [first]")
    expect(said).to_contain_text("It is valid.")
    expect(page.locator(".cm-lintRange-error")).to_have_count(0)
    # Nobody has pressed Check.
    assert editing.path == "/workflows/new"
    expect(page.get_by_role("button", name="Save")).to_have_count(0)


def test_the_graph_beside_the_text_follows_it_and_stays_while_there_is_an_error(editing: Screen) -> None:
    page = editing.page
    write(page, FLOW)
    boxes = page.locator("#graph .step")
    expect(boxes).to_have_count(2)
    write(page, FLOW + "- step: third\n  agnt: echo\n")
    expect(page.locator("#verdict")).to_contain_text("steps[2].agnt")
    expect(boxes).to_have_count(2)
    write(page, FLOW + "- step: third\n  agent: echo\n")
    expect(boxes).to_have_count(3)


def test_the_graph_beside_the_text_is_whole_and_can_be_read(editing: Screen) -> None:
    page = editing.page
    write(page, FLOW + "".join(f"- step: more-{n}\n  agent: echo\n  needs: [second]\n" for n in range(3)))
    expect(page.locator("#graph .step")).to_have_count(5)
    frame = page.locator("#graph .dag")
    for width in (1024, 1280, 1440):
        page.set_viewport_size({"width": width, "height": 800})
        assert frame.evaluate("(frame) => frame.scrollWidth <= frame.clientWidth"), width
        assert frame.evaluate("(frame) => frame.querySelector('.note').getScreenCTM().a * 12") >= 11, width


def test_yaml_has_colours(editing: Screen) -> None:
    page = editing.page
    write(page, "# why\nkind: Workflow\n")
    line = page.locator(".cm-line")
    colours = [
        line.nth(number).locator("span").first.evaluate("(part) => getComputedStyle(part).color") for number in (0, 1)
    ]
    assert colours[0] != colours[1]
    page.emulate_media(color_scheme="dark")
    assert line.nth(1).locator("span").first.evaluate("(part) => getComputedStyle(part).color") != colours[1]


def test_a_block_of_text_has_one_colour_until_it_ends(editing: Screen) -> None:
    page = editing.page
    write(page, 'text: |\n  a: "1" # no comment\n\n  b: [c]\nnext: "two\n  lines: of text"\nlast: [1, {a: b}] # why\n')
    colours = [
        [part.evaluate("(part) => getComputedStyle(part).color") for part in line.locator("span").all()]
        for line in page.locator(".cm-line").all()
    ]
    (key, block), first, _, second, (_, opened), inside, last, _ = colours
    assert [*first, *second, *inside] == [opened] * 3
    assert len({key, block, opened}) == 3
    assert [last[0], last[2], last[-1] in {key, block, opened}] == [key, key, False]


CODE = """kind: Agent
name: coloured
type: python
code: |
  # why
  def run(context):
      text = '''two
      lines'''

      return {"n": 1}
description: def of nothing
"""


def test_python_in_a_block_of_code_has_colours_of_its_own(editing: Screen) -> None:
    page = editing.page
    write(page, CODE)
    lines = page.locator(".cm-line")
    # A character has the colour of the innermost element around it.
    seen = """(line) => {
        const walk = document.createTreeWalker(line, NodeFilter.SHOW_TEXT);
        const found = {};
        while (walk.nextNode()) {
            const colour = getComputedStyle(walk.currentNode.parentElement).color;
            for (const word of walk.currentNode.textContent.trim().split(/\\s+/).filter(Boolean)) found[word] = colour;
        }
        return found;
    }"""
    expect(lines.nth(5).locator("span span").first).to_have_text("def")
    comment, define, text, rest, gap, give, after = (lines.nth(number).evaluate(seen) for number in range(4, 11))
    assert define["def"] == give["return"]
    assert text["'''two"] == rest["lines'''"] == give['"n"']
    assert gap == {}
    colours = [comment["#"], define["def"], define["run"], text["text"], text["'''two"]]
    assert len(set(colours)) == 5
    assert after["def"] == after["nothing"] != define["def"], "the block has ended"
    assert wrong_in_both_schemes(page, "with code") == {}


def test_a_new_line_is_indented_as_its_field_needs(editing: Screen) -> None:
    page = editing.page
    write(page, "steps:\n- step: first\n  parameters: # of the agent")
    for text in ("code: |", "x = 1"):
        page.keyboard.press("Enter")
        page.keyboard.insert_text(text)
    expect(page.locator("textarea[name=text]")).to_have_value(
        "steps:\n- step: first\n  parameters: # of the agent\n    code: |\n      x = 1"
    )


def test_fields_values_and_names_that_exist_are_offered(editing: Screen, console: Service) -> None:
    console.admin.apply("kind: Environment\nname: offered-room\n")
    page = editing.page
    write(page, FLOW + "  ")
    page.keyboard.type("env")
    options = page.get_by_role("listbox").get_by_role("option")
    expect(options).to_contain_text(["environment"])
    expect(page.locator(".cm-completionInfo")).to_contain_text("environment")
    options.first.click()
    expect(page.locator("textarea[name=text]")).to_have_value(FLOW + "  environment: ")
    page.keyboard.type("offer")
    expect(options).to_have_text(["offered-room"])
    options.first.click()
    expect(page.locator("textarea[name=text]")).to_have_value(FLOW + "  environment: offered-room")
    page.keyboard.press("Enter")
    page.keyboard.type("needs: [f")
    expect(options).to_have_text(["first"])


def test_a_field_is_explained_under_the_pointer(editing: Screen) -> None:
    page = editing.page
    write(page, FLOW)
    page.locator(".cm-line", has_text="needs:").get_by_text("needs").hover()
    expect(page.locator(".cm-tooltip .explained")).to_contain_text("needs")
    expect(page.locator(".cm-tooltip .explained")).to_contain_text("list")


def test_the_keyboard_alone_enters_and_leaves_the_text(editing: Screen) -> None:
    page = editing.page
    write(page, "kind: Workflow\n")
    page.keyboard.press("Tab")
    expect(page.locator("textarea[name=text]")).to_have_value("kind: Workflow\n  ")
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    expect(page.get_by_role("textbox", name="Manifest")).not_to_be_focused()
    page.keyboard.press("Shift+Tab")
    expect(page.get_by_role("textbox", name="Manifest")).to_be_focused()
    expect(page.locator("textarea[name=text]")).to_have_value("kind: Workflow\n  ")
    expect(page.get_by_text("press Escape, then Tab, to leave the text")).to_be_visible()


def test_the_page_excludes_nobody_and_fits_the_screen(editing: Screen) -> None:
    page = editing.page
    write(page, FLOW.replace("needs:", "need:"))
    expect(page.locator(".cm-lintRange-error")).to_have_count(1)
    assert wrong_in_both_schemes(page, "with a problem") == {}
    write(page, FLOW)
    expect(page.locator("#graph .step")).to_have_count(2)
    assert wrong_in_both_schemes(page, "with a graph") == {}


def test_check_and_its_result_stay_in_sight_of_a_long_text(editing: Screen) -> None:
    page = editing.page
    write(page, FLOW + "# more\n" * 400)
    expect(page.locator("#verdict")).to_contain_text("It is valid.")
    expect(page.locator("#verdict")).to_be_in_viewport(ratio=1)
    expect(page.get_by_role("button", name="Check")).to_be_in_viewport(ratio=1)


@pytest.mark.parametrize("codings", ["gzip", "gzip, br"])
def test_the_page_is_small_on_the_wire(signed_in: NewPerson, codings: str) -> None:
    screen = signed_in(f"meter-{codings.replace(', ', '-')}", ROLE_ADMINISTRATOR)
    page = screen.page
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    session.send("Network.setCacheDisabled", {"cacheDisabled": True})
    page.set_extra_http_headers({"Accept-Encoding": codings})
    counted: set[str] = set()
    used: set[str] = set()
    sizes: dict[str, float] = {}
    kinds = {"Document", "Stylesheet", "Script"}

    def count(seen: dict[str, Any]) -> None:
        if seen["type"] in kinds:
            counted.add(seen["requestId"])
            used.add(seen["response"]["headers"].get("Content-Encoding", "none"))

    session.on("Network.responseReceived", count)
    session.on("Network.loadingFinished", lambda done: sizes.update({done["requestId"]: done["encodedDataLength"]}))
    screen.open("/workflows/new")
    expect(page.locator(".cm-editor")).to_be_visible()
    expect(page.locator("#verdict")).not_to_have_text(re.compile("Not checked|Checking"))
    assert used - {"none"} == set(codings.split(", "))
    assert 0 < sum(size for request, size in sizes.items() if request in counted) < MOST_BYTES


def test_without_the_bundle_the_page_has_the_text_area_and_no_complaint(
    signed_in: NewPerson,
) -> None:
    screen = signed_in("without-bundle", ROLE_ADMINISTRATOR)
    page = screen.page
    page.route("**/manifest-editor.js", lambda route: route.abort())
    screen.open("/workflows/new")
    area = page.get_by_label("Manifest")
    area.fill(FLOW.replace("needs:", "need:"))
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("alert")).to_contain_text("Line 8: steps[1].need")
    expect(page.locator(".cm-editor")).to_have_count(0)
    area.fill(FLOW)
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("button", name="Save as version 1")).to_be_visible()
    expect(page.locator("#graph .step")).to_have_count(2)


def test_who_types_while_the_editor_loads_goes_on_in_it(signed_in: NewPerson) -> None:
    screen = signed_in("early-typing", ROLE_ADMINISTRATOR)
    page = screen.page
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/manifest-editor.js", hold)
    with page.expect_request("**/manifest-editor.js"):
        screen.open("/workflows/new")
    area = page.locator("textarea[name=text]")
    area.focus()
    page.keyboard.press("Control+Home")
    page.keyboard.type("# before ")
    (request,) = held
    request.continue_()
    expect(page.locator(".cm-editor")).to_be_visible()
    page.keyboard.type("and after\n")
    expect(area).to_have_value(re.compile(r"^# before and after\nkind: "))
