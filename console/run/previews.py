"""Previews of an output within a page: JSON text as a tree, and the first rows of a table by groups of columns."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from markupsafe import escape

from workflow_api.v1.reviews_pb2 import ReviewTable

MOST_NODES: Final = 800

_MOST_DEPTH: Final = 12
_MOST_CHARS: Final = 300
_OPEN_DEPTH: Final = 2

MOST_COLUMNS: Final = 12
"""Most columns of a group, shown at once."""

_MOST_BYTES: Final = 75_000
_TAG_BYTES: Final = 10
_NARROWEST: Final = 16
_CUT: Final = "…"


class _Number(str):
    """A number in its original spelling."""

    __slots__ = ()


@dataclass(slots=True)
class JsonNode:
    """A node of a JSON tree: a value with its name in the containing object or list.

    `text` is a scalar as JSON, or the number of members; `left_out` counts members that are not shown.
    """

    name: str
    text: str
    children: list["JsonNode"] = field(default_factory=list)
    open: bool = False
    left_out: int = 0


def tree_of(text: str) -> JsonNode | None:
    """Returns JSON text as a tree; None where it is no JSON, or a plain value."""
    try:
        value = json.loads(text, parse_int=_Number, parse_float=_Number, parse_constant=_Number)
    except (ValueError, RecursionError):
        return None
    return _TreeBuilder().node("", value, 0) if isinstance(value, dict | list) else None


class _TreeBuilder:
    """Builds nodes, at most as many as one page may have."""

    def __init__(self) -> None:
        self._left = MOST_NODES

    def node(self, name: str, value: Any, depth: int) -> JsonNode:
        self._left -= 1
        name = name[:_MOST_CHARS]
        if not isinstance(value, dict | list):
            return JsonNode(name, _scalar(value))
        is_object = isinstance(value, dict)
        what = ("member" if is_object else "item") + ("" if len(value) == 1 else "s")
        node = JsonNode(name, f"{len(value):,} {what}", open=depth < _OPEN_DEPTH)
        members = (
            value.items() if isinstance(value, dict) else ((str(number), each) for number, each in enumerate(value))
        )
        if depth < _MOST_DEPTH:
            for key, member in members:
                if self._left <= 0:
                    break
                node.children.append(self.node(key, member, depth + 1))
        node.left_out = len(value) - len(node.children)
        return node


class TableExcerpt(NamedTuple):
    """A group of columns of the rows; `groups` has the number and label of each group, if there are several.

    `narrowed` is True where texts are cut to fit.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    groups: Sequence[tuple[int, str]]
    group: int
    narrowed: bool


def table_excerpt(table: ReviewTable, group: int) -> TableExcerpt:
    """Returns the columns of a group by its number from 1; the first group for any other number."""
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


def _scalar(value: Any) -> str:
    text = str(value) if isinstance(value, _Number) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MOST_CHARS else text[: _MOST_CHARS - 1] + "…"


def _longest(sizes: Sequence[int], room: int) -> int:
    """Returns the most bytes of each text so that all texts fit into `room`."""
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
    """Returns the beginning of a text, at most `longest` bytes."""
    room = longest - _size(_CUT)
    length = 0
    for character in text:
        room -= _size(character)
        if room < 0:
            break
        length += 1
    return text[:length] + _CUT


def _size(text: str) -> int:
    """Returns the bytes of a text in a page."""
    return len(text) if text.isalnum() and text.isascii() else len(str(escape(text)).encode())
