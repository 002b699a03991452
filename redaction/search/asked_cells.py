"""Calls a model for the cells of a table or the values of JSON, with the names of their columns or keys.

The model reads the cells of a column as consecutive lines, each behind the name of the column, because it recognises a
cell best among others of its kind. Names of columns and keys are not searched.
"""

import bisect
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from redaction.model import Column
from redaction.rules.persons import names_goods, names_things
from redaction.rules.rule import Value
from redaction.search.finder import Finder, is_known_label
from redaction.search.folding import without_unseen

# Fewer cells with one label are read in their order, among cells of other labels.
_LEAST_CELLS: Final = 4
# A longer cell, or a cell of several lines, is read as a text of its own.
_LONGEST_CELL: Final = 200
_LONGEST_LABEL: Final = 40
# Short codes of capitals and digits, times, and the declaration of an XML document.
_NO_VALUE: Final = re.compile(
    r"<![A-Z][^<>]*>|xml version=[^<>]*|[A-Z]{1,3}|(?=[^0-9]*[0-9])[A-Z0-9_]+(?:[-_/.#][A-Z0-9]+)*|"
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.]+(?:Z|[-+][0-9:]+)?"
)
_LEAST_DIGITS: Final = 7
_AROUND: Final = ' \t\r\n"\ufeff'
# Labels of cells that may be heads.
_OF_NAMES: Final = frozenset({"", "th", "td", "tr", "table"})
# Names of columns rarely contain a mail address or a long number.
_DATA: Final = re.compile(r"@|[0-9]{4}")
_DATA_SHARE: Final = 5


class _Lines:
    """A text of lines, with the cells that they hold."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.starts: list[int] = []
        self.indices: list[int] = []
        self.columns: list[Column] = []
        self.size = 0

    def add(self, index: int, cell: str, prefix: str) -> None:
        self.starts.append(self.size + len(prefix))
        self.indices.append(index)
        self.parts += prefix, cell, "\n"
        self.size += len(prefix) + len(cell) + 1


def asked_values(
    finder: Finder, cells: Sequence[str], labels: Sequence[str], chosen: Sequence[int]
) -> dict[int, list[Value]]:
    """Returns the model's values in the chosen cells, by index; `labels` name columns or keys, "" for none."""
    names = _names(labels)
    lines = _lines(
        cells,
        labels,
        [
            index
            for index in chosen
            if _may_hold_value(cells[index]) and not _is_of_no_person(cells[index], labels[index], names)
        ],
    )
    text = "".join(lines.parts)
    columns = lines.columns
    seen = without_unseen(text)
    if seen is not None:
        place = seen.folded
        columns = [Column(place(column.start), place(column.end), column.prefix) for column in columns]
    found: dict[int, list[Value]] = defaultdict(list)
    for start, end, entity, score in finder.asked_values(text if seen is None else seen.text, columns):
        low, high = (start, end) if seen is None else (seen.original(start), seen.original(end))
        # A value that begins in a label belongs to the cell behind it.
        at = max(bisect.bisect_left(lines.starts, high) - 1, 0)
        begin = lines.starts[at]
        index = lines.indices[at]
        low, high = max(low - begin, 0), min(high - begin, len(cells[index]))
        if low < high:
            found[index].append((low, high, entity, score))
    return found


def _lines(cells: Sequence[str], labels: Sequence[str], chosen: Sequence[int]) -> _Lines:
    by_label: dict[str, list[int]] = defaultdict(list)
    for index in chosen:
        if labels[index] and _is_short(cells[index]):
            by_label[labels[index]].append(index)
    lines = _Lines()
    placed: set[int] = set()
    for label, indices in by_label.items():
        if len(indices) < _LEAST_CELLS:
            continue
        start, prefix = lines.size, _prefix(label)
        for index in indices:
            lines.add(index, cells[index], prefix)
        lines.columns.append(Column(start, lines.size, len(prefix)))
        placed.update(indices)
    for index in chosen:
        if index not in placed:
            lines.add(index, cells[index], _prefix(labels[index]) if _is_short(cells[index]) else "")
    return lines


def _names(labels: Sequence[str]) -> frozenset[str]:
    """Returns the names of columns or keys: the labels, and the last keys of nested labels."""
    distinct = set(labels) - {""}
    if _DATA_SHARE * sum(_DATA.search(label) is not None for label in distinct) >= len(distinct):
        # Otherwise the first row is data of a table without names.
        return frozenset()
    names: set[str] = set()
    for label in distinct:
        place = label.find(" ")
        names |= {label, label[:place], label[place + 1 :], label.rpartition(" ")[0], label.rpartition(" ")[2]}
    return frozenset(names)


def _is_of_no_person(cell: str, label: str, names: frozenset[str]) -> bool:
    """Returns whether a cell is not personal by its label, or is a head.

    A head has no label except that of a table's heads, and is itself a label or a known one.
    """
    if len(cell) > _LONGEST_CELL:
        return False
    if names_things(label) or names_goods(label, names):
        return True
    if label.lower() not in _OF_NAMES:
        return False
    inner = cell.strip(_AROUND)
    return inner in names or is_known_label(inner)


def _prefix(label: str) -> str:
    words = " ".join(label[: 2 * _LONGEST_LABEL].replace("_", " ").split())[:_LONGEST_LABEL]
    return f"{words}: " if words else ""


def _is_short(cell: str) -> bool:
    return len(cell) <= _LONGEST_CELL and "\n" not in cell and "\r" not in cell


def _may_hold_value(cell: str) -> bool:
    inner = cell.strip(' \t\r\n"')
    if (inner.isalpha() and inner.islower()) or (
        len(inner) <= _LONGEST_CELL and _NO_VALUE.fullmatch(inner) is not None
    ):
        return False
    return any(map(str.isalpha, inner)) or sum(map(str.isdigit, inner)) >= _LEAST_DIGITS
