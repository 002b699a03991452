"""Record of the sheet of components: boxes and sizes of type by width, colours by theme, and pictures.

Boxes are relative to the parent, so that one change does not move everything below it. Pictures are compared only with
ones of one version of Chromium, which draws letters and controls its own way; boxes and colours always.
"""

import base64
import json
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, Page

FOLDER: Final = Path(__file__).parent / "design"
FACTS: Final = FOLDER / "facts.json"
THEMES: Final = ("light", "dark")
WIDTHS: Final = (390, 1440)

# Fonts of fonts-dejavu-core, whichever others a machine has.
_FONTS: Final = (
    '* { font-family: "DejaVu Sans" !important } :is(code, pre, kbd) { font-family: "DejaVu Sans Mono" !important }'
)
_READ: Final = """() => {
  const parse = (colour) => (colour.match(/[0-9.]+/g) ?? []).map(Number);
  const ground = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const [red, green, blue, alpha = 1] = parse(getComputedStyle(each).backgroundColor);
      if (alpha > 0.5) return [red, green, blue];
    }
    return [255, 255, 255];
  };
  const light = (colour) => {
    const [red, green, blue] = colour.slice(0, 3).map((part) => part / 255)
      .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const contrast = (one, other) => {
    const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
    return Math.round(10 * (high + 0.05) / (low + 0.05)) / 10;
  };
  const facts = {};
  for (const component of document.querySelectorAll("[data-component]")) {
    const boxes = [], colours = [];
    for (const element of [component, ...component.querySelectorAll("*")]) {
      if (element.closest("svg svg, svg *, option, [hidden]") || element.offsetWidth === 0) continue;
      const box = element.getBoundingClientRect(), around = element.parentElement.getBoundingClientRect();
      const style = getComputedStyle(element);
      const texts = [...element.childNodes].filter((node) => node.nodeType === 3);
      const own = texts.map((node) => node.data.trim()).join("");
      const name = [element.localName, ...element.classList].join(".") + (own ? ` ${own.slice(0, 12)}` : "");
      const down = element === component ? 0 : box.y - around.y;
      const place = [box.x - around.x, down, box.width, box.height].map(Math.round);
      boxes.push([name, ...place, Math.round(10 * parseFloat(style.fontSize)) / 10]);
      colours.push([name, style.color, style.backgroundColor, style.borderTopColor,
        own ? contrast(parse(style.color), ground(element)) : 0]);
    }
    facts[component.dataset.component] = { boxes, colours };
  }
  return facts;
}"""
_SMALL: Final = """async (data) => {
  const image = new Image();
  image.src = `data:image/png;base64,${data}`;
  await image.decode();
  const canvas = new OffscreenCanvas(image.width, image.height);
  canvas.getContext("2d").drawImage(image, 0, 0);
  const small = new Uint8Array(await (await canvas.convertToBlob({ type: "image/webp", quality: 0.3 })).arrayBuffer());
  return btoa(Array.from(small, (byte) => String.fromCharCode(byte)).join(""));
}"""
# Tiles of which more than a tenth of the pixels clearly differ.
_DIFFERENT: Final = """async ([before, after]) => {
  const pixels = async (data) => {
    const image = new Image();
    image.src = `data:image/webp;base64,${data}`;
    await image.decode();
    const canvas = new OffscreenCanvas(image.width, image.height).getContext("2d");
    canvas.drawImage(image, 0, 0);
    return canvas.getImageData(0, 0, image.width, image.height);
  };
  const [one, other] = [await pixels(before), await pixels(after)];
  if (Math.abs(one.width - other.width) > 4 || Math.abs(one.height - other.height) > 4)
    return [`${one.width}x${one.height} became ${other.width}x${other.height}`];
  const SIZE = 32, counts = new Map();
  for (let y = 0; y < Math.min(one.height, other.height); y++)
    for (let x = 0; x < Math.min(one.width, other.width); x++) {
      const at = 4 * (y * one.width + x), to = 4 * (y * other.width + x);
      if ([0, 1, 2].some((part) => Math.abs(one.data[at + part] - other.data[to + part]) > 48)) {
        const tile = `${SIZE * Math.floor(x / SIZE)},${SIZE * Math.floor(y / SIZE)}`;
        counts.set(tile, (counts.get(tile) ?? 0) + 1);
      }
    }
  return [...counts].filter(([, count]) => count > SIZE * SIZE / 10).map(([tile]) => tile);
}"""


def sheet(browser: Browser, address: str, state: Any, theme: str, width: int, density: str = "") -> Page:
    """Returns the sheet in a window of its own, by the session of `state`, with fonts that every machine has."""
    context = browser.new_context(
        bypass_csp=True,
        storage_state=state,
        viewport={"width": width, "height": 900},
        device_scale_factor=0.5,
        locale="en-US",
        timezone_id="UTC",
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.goto(f"{address}design?theme={theme}&density={density}")
    page.add_style_tag(content=_FONTS)
    page.evaluate("document.activeElement.blur()")
    page.evaluate("document.fonts.ready")
    return page


def read(pages: dict[tuple[str, int], Page], version: str) -> dict[str, Any]:
    """Returns the facts of a sheet by theme and width."""
    facts: dict[str, Any] = {"chromium": version, "boxes": {}, "colours": {}}
    for (theme, width), page in pages.items():
        found = page.evaluate(_READ)
        if theme == THEMES[0]:
            facts["boxes"][str(width)] = {name: each["boxes"] for name, each in found.items()}
        if width == WIDTHS[-1]:
            facts["colours"][theme] = {name: each["colours"] for name, each in found.items()}
    return facts


def picture(page: Page, blank: Page) -> bytes:
    """Returns a picture of the sheet at half its size, without the navigation; `blank` makes it a small WebP."""
    taken = page.locator("main").screenshot(animations="disabled", caret="hide")
    return base64.b64decode(blank.evaluate(_SMALL, base64.b64encode(taken).decode()))


def picture_file(theme: str, width: int) -> Path:
    """Returns the file of a picture."""
    return FOLDER / f"{theme}-{width}.webp"


def different_tiles(page: Page, before: bytes, after: bytes) -> list[str]:
    """Returns the places at which two pictures differ, compared in a page without a policy of its own."""
    found: list[str] = page.evaluate(_DIFFERENT, [base64.b64encode(each).decode() for each in (before, after)])
    return found


def write(facts: dict[str, Any]) -> None:
    """Records facts, a component a line."""
    lines = [
        f"  {json.dumps(kind)}: {{\n"
        + ",\n".join(
            f"    {json.dumps(at)}: {{\n"
            + ",\n".join(
                f"      {json.dumps(name)}: {json.dumps(each, ensure_ascii=False, separators=(',', ':'))}"
                for name, each in components.items()
            )
            + "\n    }"
            for at, components in facts[kind].items()
        )
        + "\n  }"
        for kind in ("boxes", "colours")
    ]
    FACTS.write_text(
        "{\n" + ",\n".join([f'  "chromium": {json.dumps(facts["chromium"])}', *lines]) + "\n}\n", encoding="utf-8"
    )


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Returns what has changed between two records: elements, boxes by more than a little, colours."""
    found: list[str] = []
    for kind in ("boxes", "colours"):
        for at in sorted({*before[kind], *after[kind]}):
            old, new = before[kind].get(at, {}), after[kind].get(at, {})
            for component in sorted({*old, *new}):
                place = f"{component} at {at}"
                was, now = old.get(component, []), new.get(component, [])
                if [each[0] for each in was] != [each[0] for each in now]:
                    found.append(f"{place}: other elements, {len(was)} before and {len(now)} now")
                    continue
                alike = _near if kind == "boxes" else list.__eq__
                found += [
                    f"{place}: {one} became {other}"
                    for one, other in zip(was, now, strict=True)
                    if not alike(one, other)
                ]
    return found


def _near(one: list[Any], other: list[Any]) -> bool:
    """Tells whether two boxes differ by at most 3 pixels or 2 %, and have one size of type."""
    places = zip(one[1:5], other[1:5], strict=True)
    return one[5] == other[5] and all(abs(a - b) <= max(3, abs(a) * 0.02) for a, b in places)
