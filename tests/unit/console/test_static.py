"""Style sheets: sizes and spaces are values of the scale, and words stay whole."""

import re
from pathlib import Path

import pytest

import console

STATIC = Path(console.__file__).parent / "static"
SHEETS = sorted(path.name for path in STATIC.glob("*.css"))
DECLARED = re.compile(r"(?<![\w-])((?:padding|margin)(?:-[a-z]+)?|gap|font-size): ([^;{}]+)")
OWN = re.compile(r"(?<![\w.-])-?(?:[0-9.]+(?:rem|em)|(?:[5-9]|[0-9]{2,})px)\b")
NUMBERED = {
    "margin-left: -7.5rem",
    "padding: var(--s1) 0 var(--s1) 7.5rem",
    "padding: var(--s1) var(--s4) var(--s3) 3.25rem",
}
"""Columns of cards and of numbered steps."""
DRAWN = {"font-size: 9px", "font-size: 13px"}
"""Units of a drawing that grows with its frame."""


def own_numbers(sheet: str) -> list[str]:
    text = sheet[: sheet.index("@media print")] if "@media print {\n  @page" in sheet else sheet
    found = [f"{name}: {value}" for name, value in DECLARED.findall(text) if OWN.search(value)]
    return [each for each in found if each not in NUMBERED | DRAWN]


@pytest.mark.parametrize("name", SHEETS)
def test_sizes_of_type_and_spaces_are_values_of_the_scale(name: str) -> None:
    assert own_numbers((STATIC / name).read_text("utf-8")) == []


def test_a_number_of_ones_own_is_found() -> None:
    assert own_numbers("a { padding: 0 0.3rem; gap: var(--s1); margin: 1px; font-size: 15px; }") == [
        "padding: 0 0.3rem",
        "font-size: 15px",
    ]


@pytest.mark.parametrize("name", SHEETS)
def test_no_style_sheet_breaks_words_wherever_a_line_ends(name: str) -> None:
    assert "word-break" not in (STATIC / name).read_text("utf-8")
