"""What is wrong with a page that is shown: cut off at some width, or found by axe-core."""

from importlib import resources
from typing import Any, Literal, get_args

from playwright.sync_api import Page

AXE = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
Scheme = Literal["light", "dark"]
WIDTHS = (360, 800, 1101, 1280)
"""As cards, with wide tables, with the column of pages, and usual. The first and the last are for axe-core."""
_FINDINGS = """async () => (await axe.run()).violations.map(
  (rule) => [rule.id, ...rule.nodes.map((node) => node.html.slice(0, 160))])"""
# What is wider than its place; a table of unknown columns and what is drawn may scroll in a frame of their own.
CUT = """() => [
  ...(document.documentElement.scrollWidth > innerWidth ? [`the page: ${document.documentElement.scrollWidth}`] : []),
  ...[...document.querySelectorAll(".table:not(.wide)")].filter((table) => table.scrollWidth > table.clientWidth)
    .map((table) => `${table.ariaLabel}: ${table.scrollWidth} > ${table.clientWidth}`),
]"""


def findings(page: Page) -> list[Any]:
    """What axe-core finds."""
    page.evaluate(AXE)
    found: list[Any] = page.evaluate(_FINDINGS)
    return found


def wrong_at_widths(page: Page, name: str) -> dict[str, list[Any]]:
    """What is wrong with the page that is shown, by its name and width."""
    wrong: dict[str, list[Any]] = {}
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        found = [*page.evaluate(CUT), *(findings(page) if width in {WIDTHS[0], WIDTHS[-1]} else ())]
        if found:
            wrong[f"{name} at {width}"] = found
    return wrong


def wrong_in_both_schemes(page: Page, name: str) -> dict[str, list[Any]]:
    """What is wrong with a page that cannot be opened again, by its name, scheme and width; ends as it began."""
    size = page.viewport_size
    wrong: dict[str, list[Any]] = {}
    schemes: tuple[Scheme, ...] = get_args(Scheme)
    for scheme in schemes:
        page.emulate_media(color_scheme=scheme)
        wrong |= wrong_at_widths(page, f"{name}, {scheme}")
    page.emulate_media(color_scheme=None)
    if size is not None:
        page.set_viewport_size(size)
    return wrong
