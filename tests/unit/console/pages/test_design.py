"""The sheet of components, which only consoles of developers have."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import console
from tests.unit.console.conftest import Desk

TEMPLATES = Path(console.__file__).parent / "templates"
MACRO = re.compile(r"{% macro ([a-z]\w*)\(")


@pytest.fixture(name="developers", scope="module")
def _developers(start: Callable[..., Desk]) -> Desk:
    return start(design_sheet=True)


def test_the_sheet_is_absent_unless_a_setting_asks_for_it(desk: Desk) -> None:
    assert desk.browser("ann").get("/design").status == 404


def test_the_sheet_needs_a_session_and_is_in_no_navigation(developers: Desk) -> None:
    assert developers.browser().get("/design").status == 303
    answer = developers.browser("ann").get("/design")
    assert answer.status == 200
    assert 'href="/design"' not in answer.text


@pytest.mark.parametrize(("theme", "density"), [("light", ""), ("dark", "compact"), ("", ""), ("<b>", "")])
def test_the_sheet_has_the_colours_and_the_density_that_are_asked_for(
    developers: Desk, theme: str, density: str
) -> None:
    text = developers.browser("ann").get(f"/design?theme={theme}&density={density}").text
    head = re.search("<html[^>]*>", text)
    assert head is not None
    assert (f'data-theme="{theme}"' in head[0]) == (theme in {"light", "dark"})
    assert ('data-density="compact"' in head[0]) == (density == "compact")


def test_the_sheet_shows_every_macro_of_pages() -> None:
    sheet = (TEMPLATES / "design.html").read_text("utf-8")
    macros = MACRO.findall((TEMPLATES / "macros.html").read_text("utf-8"))
    # These stand on every page, or are attributes of an element.
    elsewhere = {"approvals_count", "news"}
    assert [name for name in macros if name not in elsewhere and f"ui.{name}(" not in sheet] == []
