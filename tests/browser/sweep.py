"""What is wrong with a page that is shown: cut off at some width, or found by axe-core."""

from collections.abc import Mapping
from importlib import resources
from typing import Any, Final, Literal, get_args

from playwright.sync_api import Page

AXE = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
Scheme = Literal["light", "dark"]
AXE_WIDTHS: Final = (390, 1440, 768, 1024)
"""Widths for axe-core, those first that together show every layout: cards, and tables with the column of pages."""
WIDTHS: Final = (*AXE_WIDTHS, 360, 1101)
"""Widths at which nothing is cut off: also the narrowest, and the first that has the column of pages."""
# The rules of WCAG 2.2 AA and good practice; axe-core leaves the size of targets out unless asked.
_RULES: Final[Mapping[Scheme, Mapping[str, Any]]] = {
    "light": {"rules": {"target-size": {"enabled": True}}},
    "dark": {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}},
}
_WITHOUT_CONTRAST: Final = {"rules": {"target-size": {"enabled": True}, "color-contrast": {"enabled": False}}}
# Without what passed, which axe-core would describe as well: most of a page, at a fifth of its time.
_VIOLATIONS: Final = {"reporter": "no-passes", "resultTypes": ["violations"]}
_FINDINGS = """async (options) => (await axe.run(options)).violations.map(
  (rule) => [rule.id, ...rule.nodes.map((node) => node.html.slice(0, 160))])"""
# The kinds of elements with text, with their colours, surfaces and fonts: on them alone does the contrast depend.
_COLOURS = """() => {
  const surfaces = new Map([[null, ""]]);
  const surface = (each) => {
    if (!surfaces.has(each)) {
      const { backgroundColor, backgroundImage, opacity } = getComputedStyle(each);
      const own = `${backgroundColor} ${backgroundImage} ${opacity}`;
      surfaces.set(each, surface(each.parentElement) + (own === "rgba(0, 0, 0, 0) none 1" ? "" : `, ${own}`));
    }
    return surfaces.get(each);
  };
  const shown = new Set();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const around = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !around.checkVisibility()) continue;
    const { color, fontSize, fontWeight } = getComputedStyle(around);
    shown.add([around.localName, around.className, color, fontSize, fontWeight, surface(around)].join("; "));
  }
  return [...shown];
}"""
# What is wider than its place; a table of unknown columns and what is drawn may scroll in a frame of their own.
CUT = """() => [
  ...(document.documentElement.scrollWidth > innerWidth ? [`the page: ${document.documentElement.scrollWidth}`] : []),
  ...[...document.querySelectorAll(".table:not(.wide)")].filter((table) => table.scrollWidth > table.clientWidth)
    .map((table) => `${table.ariaLabel}: ${table.scrollWidth} > ${table.clientWidth}`),
]"""

# Words that stand on two lines: of letters alone, or numbers, as people write them; ids and names of files may break.
BROKEN = r"""() => {
  const broken = new Set();
  const texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  while (texts.nextNode()) {
    const text = texts.currentNode;
    const around = text.parentElement;
    const unseen = [around, around.closest("thead, .hidden")].some((each) => each && each.offsetWidth <= 1);
    if (unseen || !around.checkVisibility() || around.closest("pre, textarea, option, svg")) continue;
    for (const word of text.data.matchAll(/(?<![^\s(])(?:\p{L}{2,16}|[0-9][0-9,.]{1,12})(?=[\s).,:;!?]|$)/gu)) {
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      const boxes = [...range.getClientRects()].filter((box) => box.width > 1);
      const lines = new Set(boxes.map((box) => Math.round(box.top)));
      if (lines.size > 1) broken.add(`broken: ${word[0]} in ${around.outerHTML.slice(0, 80)}`);
    }
  }
  return [...broken];
}"""


def findings(page: Page, scheme: Scheme = "light", *, contrast: bool = True) -> list[Any]:
    """Returns what axe-core finds; of the dark scheme, which changes colours alone, what it finds in colours."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE)
    page.emulate_media(color_scheme=scheme)
    rules = _RULES[scheme] if contrast else _WITHOUT_CONTRAST
    found: list[Any] = page.evaluate(_FINDINGS, {**_VIOLATIONS, **rules})
    return found


def wrong_in_both_schemes(page: Page, name: str) -> dict[str, list[Any]]:
    """Returns what is wrong with the page that is shown, by its name, width and scheme; ends as it began.

    Contrast takes axe-core most of its time. A width at which the page shows no further colours has no new finding in
    it, so the contrast is measured at the other widths alone.
    """
    size = page.viewport_size
    wrong: dict[str, list[Any]] = {}
    schemes: tuple[Scheme, ...] = get_args(Scheme)
    measured: set[str] = set()
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        if cut := page.evaluate(CUT) + page.evaluate(BROKEN):
            wrong[f"{name} at {width}"] = cut
        if width not in AXE_WIDTHS:
            continue
        page.emulate_media(color_scheme="light")
        colours = set(page.evaluate(_COLOURS))
        contrast = not colours <= measured
        measured |= colours
        for scheme in schemes if contrast else schemes[:1]:
            if found := findings(page, scheme, contrast=contrast):
                wrong[f"{name} at {width}, {scheme}"] = found
    page.emulate_media(color_scheme=None)
    if size is not None:
        page.set_viewport_size(size)
    return wrong
