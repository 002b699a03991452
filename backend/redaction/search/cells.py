"""Finds values in many cells at once: joins them by line breaks, which no value crosses."""

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from backend.redaction.rules.rule import Value
from backend.redaction.search.asked_cells import asked_values
from backend.redaction.search.cell_labels import CellLabel
from backend.redaction.search.characters import normalised
from backend.redaction.search.finder import Finder
from backend.redaction.search.piece_labels import PieceLabels
from backend.redaction.search.spans import joined
from backend.redaction.search.whole_cells import LONGEST as LONGEST_WHOLE
from backend.redaction.search.whole_cells import Found, WholeCells, is_quiet

_AROUND: Final = ' \t\r\n"'
# The index of a cell, the cell, and the same without quotes and blanks around it.
_Cell = tuple[int, str, str]


@dataclass(frozen=True)
class CellValues:
    """The values in some cells, by the index of the cell."""

    whole: dict[int, Found]
    """Cells that are one value from the first character to the last."""
    parts: dict[int, list[Value]]
    """Values of other cells: in order, none overlapping."""
    searched: list[list[int]]
    """Groups of equal cells that were read as text, in order; only the first of each has its values in `parts`."""

    def repeat(self) -> None:
        """Gives the cells that were read as text the values of the first that equals them."""
        for first, *others in self.searched:
            if others and first in self.parts:
                self.parts.update(dict.fromkeys(others, self.parts[first]))


def find_in_cells(
    finder: Finder, categories: frozenset[str], floor: float, cells: Sequence[str], labels: Sequence[str]
) -> CellValues:
    """Finds the values of cells; `labels` name their columns or keys, "" for none."""
    columns: dict[str, list[int]] = defaultdict(list)
    for index, name in enumerate(labels):
        columns[name].append(index)
    by_label = {name: CellLabel(name, categories, floor) for name in columns}
    words = finder.whole_cells.words_in({label.plain for label in by_label.values()})
    found = CellValues({}, {}, [])
    named: dict[int, list[Value]] = {}
    texts: list[int] = []
    for name, indices in columns.items():
        label = by_label[name]
        beside = words.get(label.plain, frozenset())
        column = _worth_reading(label, beside, cells, indices)
        # One value fills no cell that is long or of several lines, or has a quote in it.
        rest = [one for one in column if len(one[1]) > LONGEST_WHOLE or '"' in one[2] or "\n" in one[2]]
        if rest:
            texts += [index for index, _, _ in rest]
            named |= _named(label, rest)
            column = [
                one for one in column if len(one[1]) <= LONGEST_WHOLE and '"' not in one[2] and "\n" not in one[2]
            ]
        texts += _find_whole(finder.whole_cells, label, beside, column, found)
    equal: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index in sorted(texts):
        equal[cells[index], labels[index]].append(index)
    found.searched.extend(equal.values())
    chosen = [group[0] for group in found.searched]
    asked: dict[int, list[Value]] = {}
    if not finder.by_rules_only:
        asked = asked_values(finder, cells, labels, [index for index in chosen if index not in named])
    for index, values in _searched(finder, cells, [by_label[labels[index]].plain for index in chosen], chosen, named):
        found.parts[index] = values
    for index, more in asked.items():
        found.parts[index] = joined(sorted([*found.parts.get(index, ()), *more]))
    return found


def _worth_reading(
    label: CellLabel, words: frozenset[str], cells: Sequence[str], indices: Sequence[int]
) -> list[_Cell]:
    """Returns the cells of a label but for the times of records, and for short numbers unless the label says more."""
    column = [(index, cells[index], cells[index].strip(_AROUND)) for index in indices]
    if (times := label.times) is not None:
        column = [one for one in column if times.fullmatch(one[2]) is None]
    if not words and not label.names_values:
        column = [one for one in column if is_quiet(one[2]) is None]
    return column


def _named(label: CellLabel, column: Sequence[_Cell]) -> dict[int, list[Value]]:
    """Returns the values by their label alone, by the index of the cell."""
    plain = [normalised(inner) if len(cell) <= LONGEST_WHOLE else "" for _, cell, inner in column]
    given = label.values([cell for _, cell, _ in column], plain)
    return {
        index: [(*_bounds(cell, inner), value[1], value[0])]
        for (index, cell, inner), value in zip(column, given, strict=True)
        if value is not None
    }


def _find_whole(
    rules: WholeCells, label: CellLabel, words: frozenset[str], column: Sequence[_Cell], found: CellValues
) -> list[int]:
    """Finds the cells of a label that are one value, and returns the indices of the others."""
    if not column:
        return []
    plain = normalised("\n".join([inner for _, _, inner in column])).split("\n")
    given = label.values([cell for _, cell, _ in column], plain)
    others = []
    for (index, cell, inner), value in zip(column, rules.values(plain, words, given), strict=True):
        if value is None:
            others.append(index)
        elif len(inner) == len(cell):
            found.whole[index] = value
        else:
            found.parts[index] = [(*_bounds(cell, inner), value[1], value[0])]
    return others


def _searched(
    finder: Finder, cells: Sequence[str], labels: Sequence[str], chosen: Sequence[int], named: dict[int, list[Value]]
) -> Iterator[tuple[int, list[Value]]]:
    """Yields the same for the chosen cells; `named` are the values that labels tell of, by the index of the cell."""
    texts = [cells[index] for index in chosen]
    starts = list(itertools.accumulate((len(text) + 1 for text in texts), initial=0))
    piece_labels = PieceLabels(starts, labels)
    # A cell that is longer than a window has matches in several.
    following = finder.find_each("\n".join(texts), piece_labels, by_rules_only=True)
    for piece, group in itertools.groupby(following, lambda value: piece_labels.piece_at(value[0])):
        low, size = starts[piece], len(texts[piece])
        found = [(start - low, min(end - low, size), entity, score) for start, end, entity, score in group]
        yield chosen[piece], joined(sorted(found + named.pop(chosen[piece], [])))
    yield from named.items()


def _bounds(cell: str, inner: str) -> tuple[int, int]:
    start = cell.index(inner)
    return start, start + len(inner)
