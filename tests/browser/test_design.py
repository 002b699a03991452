"""The sheet of components: it excludes nobody, and a change of its looks is recorded by `make screenshots`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast, get_args

import pytest
from playwright.sync_api import Browser, Page

from tests.browser import design_record
from tests.browser.conftest import Screen
from tests.browser.sweep import BROKEN, CUT, Scheme, findings
from tests.support.service import Service
from workflow_api.v1.users_pb2 import ROLE_VIEWER

WIDTHS = (390, 768, 1024, 1440)
MOST_BYTES = 400_000
AGAIN = "; look at it under /design, and record it with `make screenshots` if it is meant"


@pytest.fixture(scope="module")
def state(console: Service, chromium: Browser) -> Any:
    """A session of somebody who looks at the sheet."""
    context = chromium.new_context()
    screen = Screen(context.new_page(), console.ready["console"])
    password = console.admin.add_user("designer", ROLE_VIEWER)
    screen.open("/sign-in")
    screen.sign_in("designer", password)
    screen.page.wait_for_url("**/password")
    screen.change_password(password, "the password of designer")
    screen.page.get_by_role("status").wait_for()
    found = context.storage_state()
    context.close()
    return found


@pytest.fixture(scope="module")
def pages(console: Service, chromium: Browser, state: Any) -> Iterator[dict[tuple[str, int], Page]]:
    """The sheet in both themes, narrow and wide."""
    opened = {
        (theme, width): design_record.sheet(chromium, console.ready["console"], state, theme, width)
        for theme in design_record.THEMES
        for width in design_record.WIDTHS
    }
    yield opened
    for page in opened.values():
        page.context.close()


@pytest.fixture(scope="module")
def blank(chromium: Browser) -> Page:
    """A page without a policy, which reads pictures."""
    return chromium.new_page()


@pytest.fixture(scope="module")
def facts(
    pages: dict[tuple[str, int], Page], blank: Page, chromium: Browser, request: pytest.FixtureRequest
) -> dict[str, Any]:
    """The facts of the sheet, recorded first where that was asked for."""
    found = design_record.read(pages, chromium.version)
    if request.config.getoption("--record-design"):
        design_record.FOLDER.mkdir(exist_ok=True)
        design_record.write(found)
        for (theme, width), page in pages.items():
            design_record.picture_file(theme, width).write_bytes(design_record.picture(page, blank))
    return found


def test_components_have_the_boxes_and_colours_that_are_recorded(facts: dict[str, Any]) -> None:
    recorded = json.loads(design_record.FACTS.read_text(encoding="utf-8"))
    changed = design_record.changes(recorded, facts)
    assert changed == [], f"{len(changed)} changes{AGAIN}"


def test_pictures_are_those_that_are_recorded(
    facts: dict[str, Any], pages: dict[tuple[str, int], Page], blank: Page, chromium: Browser, tmp_path: Path
) -> None:
    recorded = json.loads(design_record.FACTS.read_text(encoding="utf-8"))
    if recorded["chromium"] != chromium.version:
        return
    changed = {}
    for (theme, width), page in pages.items():
        before, after = design_record.picture_file(theme, width), tmp_path / f"{theme}-{width}.webp"
        after.write_bytes(design_record.picture(page, blank))
        if tiles := design_record.different_tiles(blank, before.read_bytes(), after.read_bytes()):
            changed[after] = tiles
    assert changed == {}, f"other pictures{AGAIN}"


def test_the_record_is_small() -> None:
    assert sum(file.stat().st_size for file in design_record.FOLDER.iterdir()) < MOST_BYTES


@pytest.mark.parametrize("theme", get_args(Scheme))
@pytest.mark.parametrize("density", ["", "compact"])
def test_no_component_excludes_anybody_or_breaks_a_word(
    console: Service, chromium: Browser, state: Any, theme: str, density: str
) -> None:
    wrong: dict[str, list[Any]] = {}
    page = design_record.sheet(chromium, console.ready["console"], state, theme, WIDTHS[0], density)
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        # Rules of colours alone follow the scheme of the device, which the theme of a person is above.
        found = page.evaluate(CUT) + page.evaluate(BROKEN) + findings(page, "light")
        if theme == "dark":
            found += findings(page, cast("Scheme", theme))
        if found:
            wrong[f"{theme}, {density or 'usual'} at {width}"] = found
    page.context.close()
    assert wrong == {}


def test_every_control_and_link_of_a_list_is_24_pixels_high(console: Service, chromium: Browser, state: Any) -> None:
    """A box is as large as the label around it."""
    small = """() => [...document.querySelectorAll(
        'main :is(button, select, summary, input, .button, li > a, td a, td > label, .row > a, .more a, .tabs a)')]
      .map((each) => each.closest("label") ?? each).filter((each) => each.checkVisibility())
      .filter((each) => each.getBoundingClientRect().height < 23.5)
      .map((each) => `${each.getBoundingClientRect().height}: ${each.outerHTML.slice(0, 80)}`)"""
    found = {}
    for density in ("", "compact"):
        for width in (WIDTHS[0], WIDTHS[-1]):
            page = design_record.sheet(chromium, console.ready["console"], state, "light", width, density)
            found[f"{density} {width}"] = page.evaluate(small)
            page.context.close()
    assert {at: each for at, each in found.items() if each} == {}
