"""The first rows of a table that an output holds, within what a page may hold: all of them, some columns at a time."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from markupsafe import escape

from workflow_api.v1.reviews_pb2 import ReviewTable

MOST_COLUMNS: Final = 12
"""Columns that are shown at once."""

_MOST_BYTES: Final = 75_000
_TAG_BYTES: Final = 10
_NARROWEST: Final = 16
_CUT: Final = "…"


class TableExcerpt(NamedTuple):
    """Some columns of the rows; `groups` are the numbers and the labels of all columns, where they are more.

    `narrowed` says that texts are cut because all would not fit.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    groups: Sequence[tuple[int, str]]
    group: int
    narrowed: bool


def table_excerpt(table: ReviewTable, group: int) -> TableExcerpt:
    """Returns the columns of a group, of those numbered from 1; the first for any other number."""
    count = len(table.columns)
    groups = [
        (number, f"{start + 1} to {min(start + MOST_COLUMNS, count)}")
        for number, start in enumerate(range(0, count, MOST_COLUMNS), 1)
    ]
    group = group if 1 <= group <= len(groups) else 1
    chosen = slice((group - 1) * MOST_COLUMNS, group * MOST_COLUMNS)
    columns: Sequence[str] = table.columns[chosen]
    rows: list[Sequence[str]] = [row.cells[chosen] for row in table.rows]
    sizes = [_size(cell) for row in (columns, *rows) for cell in row]
    room = _MOST_BYTES - _TAG_BYTES * len(sizes)
    narrowed = sum(sizes) > room
    if narrowed:
        longest = _longest(sizes, room)
        columns, rows = _narrow(columns, longest), [_narrow(row, longest) for row in rows]
    return TableExcerpt(columns, rows, groups if len(groups) > 1 else (), group, narrowed)


def _longest(sizes: Sequence[int], room: int) -> int:
    """Returns to how many bytes each text is to be cut so that all have room."""
    low, high = _NARROWEST, max(sizes)
    while low < high:
        middle = (low + high + 1) // 2
        if sum(min(size, middle) for size in sizes) <= room:
            low = middle
        else:
            high = middle - 1
    return low


def _narrow(cells: Sequence[str], longest: int) -> Sequence[str]:
    return [cell if _size(cell) <= longest else _cut(cell, longest) for cell in cells]


def _cut(text: str, longest: int) -> str:
    """Returns the beginning of a text, in at most so many bytes."""
    room = longest - _size(_CUT)
    kept = 0
    for character in text:
        room -= _size(character)
        if room < 0:
            break
        kept += 1
    return text[:kept] + _CUT


def _size(text: str) -> int:
    """Returns the bytes of a text in a page."""
    return len(text) if text.isalnum() and text.isascii() else len(str(escape(text)).encode())
