"""Finds values in many cells at once: by the label of their column or key, and by a search of joined cells."""

import itertools
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from redaction.entity_types import ENTITY_TYPES
from redaction.rules.addresses import names_version
from redaction.rules.labels import (
    NAMED_SCORE,
    PART_SCORE,
    PRIVATE_MEMBER,
    has_name_form,
    label_entities,
    may_name,
    other_parts,
    plain_label,
)
from redaction.rules.persons import may_be_person
from redaction.rules.rule import Value
from redaction.search.asked_cells import asked_values
from redaction.search.finder import Finder
from redaction.search.normalisation import normalised
from redaction.search.piece_labels import PieceLabels
from redaction.search.secret_blocks import split_by_pieces
from redaction.search.spans import joined, typed_by_rules
from redaction.search.whole_cells import LONGEST as LONGEST_WHOLE
from redaction.search.whole_cells import LONGEST_SHORT_NUMBER, Found, WholeCells, is_short_number

# Characters of the longest cell that is a value by its label alone.
_LONGEST_LABELLED: Final = 500
_LONGEST_MEMBER: Final = 20_000
_LETTER: Final = re.compile(r"[^\W_]")
# Placeholders of an earlier sweep, which are no values.
_PLACEHOLDER: Final = re.compile(rf"\[(?:{'|'.join(sorted(ENTITY_TYPES))})\]")
_NOTHING: Final = frozenset({"null", "none", "true", "false"})
# Times of log records: a date with a time to the second, under labels of such times.
_ZONE: Final = "(?:Z|UTC|[+-][0-9]{2}:?[0-9]{2})"
_LOGGED: Final = re.compile(
    rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[Tt ][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(?:[.,][0-9]{{1,9}})?(?: ?{_ZONE})?"
)
# The form of mail headers.
_MAILED: Final = re.compile(
    "[A-Z][a-z]{2}, [0-9]{1,2} [A-Z][a-z]{2} [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} (?:[+-][0-9]{4}|[A-Z]{3})"
)
_MACHINE_TIMES: Final = dict.fromkeys(
    ("ts", "time", "timestamp", "log time", "logged at", "event time", "generated", "generated at"), _LOGGED
) | {"date": _MAILED}
# Versions, whose four numbers look like an IP address.
_VERSION: Final = re.compile(r"[vV]?[0-9]{1,5}(?:\.[0-9]{1,6}){1,4}")

_QUOTES_AND_BLANKS: Final = ' \t\r\n"'


class CellLabel:
    """Label of cells: the entity types that the name of a column or key gives to its values.

    `is_part` is True if adjacent labels show that the label is of a part of a name.
    """

    def __init__(self, label: str, categories: frozenset[str], floor: float, *, is_part: bool = False) -> None:
        self.words = plain_label(label)
        # Times of log records and versions are no values.
        self.technical = _MACHINE_TIMES.get(self.words) or (_VERSION if names_version(self.words) else None)
        named = (*label_entities(self.words), *((("PERSON", PART_SCORE),) if is_part else ()))
        entities = [(score, entity) for entity, score in named if entity in categories and score >= floor]
        self._value: Found | None = max(entities, default=None)
        # The value of a cell in the form of a name under an ambiguous label.
        self._name: Found | None = None
        if self._value is None and "PERSON" in categories and floor <= NAMED_SCORE and may_name(self.words):
            self._name = NAMED_SCORE, "PERSON"

    @property
    def names_values(self) -> bool:
        """Returns whether every cell under the label is a value, however short."""
        return self._value is not None

    def values(self, cells: Sequence[str], normalised_cells: Sequence[str]) -> list[Found | None]:
        """Returns the value of each cell by the label alone; None for no value.

        `normalised_cells` are the cells without quotes and blanks around them; "" for a cell too long for a name.
        """
        if (value := self._value) is not None:
            longest = _LONGEST_MEMBER if self.words == PRIVATE_MEMBER else _LONGEST_LABELLED
            given = {cell: value if _may_be_value(cell, longest) else None for cell in set(cells)}
            return [given[cell] for cell in cells]
        if (name := self._name) is not None:
            if may_be_person("\n".join(normalised_cells)):
                return [name if has_name_form(inner) else None for inner in normalised_cells]
            return [name if has_name_form(inner) and may_be_person(inner) else None for inner in normalised_cells]
        return [None] * len(cells)


def _may_be_value(cell: str, longest: int) -> bool:
    if len(cell) > longest:
        return False
    written = _PLACEHOLDER.sub("", cell) if "[" in cell else cell
    return _LETTER.search(written) is not None and cell.lower() not in _NOTHING


class _Column(NamedTuple):
    """Cells of one label: indices in order, texts, and texts without quotes and blanks around them."""

    indices: Sequence[int]
    cells: Sequence[str]
    inner: Sequence[str]

    def only(self, chosen: Sequence[bool]) -> "_Column":
        """Returns the column with the chosen cells only."""
        if all(chosen):
            return self
        indices, cells, inner = self
        return _Column(
            list(itertools.compress(indices, chosen)),
            list(itertools.compress(cells, chosen)),
            list(itertools.compress(inner, chosen)),
        )


class _Texts(NamedTuple):
    """Cells of one label that are read as text: indices, texts, and the first index of each text."""

    indices: Sequence[int]
    cells: Sequence[str]
    first: Mapping[str, int]


@dataclass(frozen=True)
class CellValues:
    """Values in cells, by the index of the cell."""

    whole: dict[int, Found]
    """Cells that are one value as a whole."""
    parts: dict[int, list[Value]]
    """Values of other cells: in order, none overlapping."""
    texts: list[_Texts]
    """Cells that were read as text; of equal cells of a label only the first has its values in `parts`."""

    def searched(self) -> list[int]:
        """Returns the cells that were read as text, in order; of equal cells of a label the first."""
        return sorted(itertools.chain(*(texts.first.values() for texts in self.texts)))

    def repeat(self) -> None:
        """Copies the values of searched cells to equal cells of their label."""
        for texts in self.texts:
            if len(texts.first) == len(texts.indices):
                continue
            values = {cell: self.parts[first] for cell, first in texts.first.items() if first in self.parts}
            if values:
                repeated = [cell in values for cell in texts.cells]
                for index, cell in itertools.compress(zip(texts.indices, texts.cells, strict=True), repeated):
                    self.parts[index] = values[cell]


def find_in_cells(
    finder: Finder, categories: frozenset[str], floor: float, cells: Sequence[str], labels: Sequence[str]
) -> CellValues:
    """Returns the values in cells; `labels` name their columns or keys, "" for none."""
    columns: dict[str, list[int]] = defaultdict(list)
    for index, name in enumerate(labels):
        columns[name].append(index)
    parts = other_parts({name: len(indices) for name, indices in columns.items()})
    by_label = {name: CellLabel(name, categories, floor, is_part=name in parts) for name in columns}
    words = finder.whole_cells.words_in({label.words for label in by_label.values()})
    found = CellValues({}, {}, [])
    named: dict[int, list[Value]] = {}
    for name, indices in columns.items():
        label = by_label[name]
        beside = words.get(label.words, frozenset())
        column = _worth_reading(label, beside, [cells[index] for index in indices], indices)
        short = _fillable(column)
        others = _find_whole(finder.whole_cells, label, beside, column.only(short), found)
        if not all(short):
            rest = column.only([not one for one in short])
            named |= _named(label, rest)
            others = sorted([*others, *rest.indices])
        if others:
            texts = [cells[index] for index in others]
            found.texts.append(_Texts(others, texts, dict(zip(reversed(texts), reversed(others), strict=True))))
    chosen = found.searched()
    asked: dict[int, list[Value]] = {}
    if not finder.by_rules_only:
        asked = asked_values(finder, cells, labels, [index for index in chosen if index not in named])
    for index, values in _searched(finder, cells, [by_label[labels[index]].words for index in chosen], chosen, named):
        found.parts[index] = values
    for index, more in asked.items():
        known = found.parts.get(index, [])
        found.parts[index] = joined(sorted([*known, *typed_by_rules(more, known)]))
    return found


def _worth_reading(label: CellLabel, words: frozenset[str], cells: Sequence[str], indices: Sequence[int]) -> _Column:
    """Returns a label's cells without times of log records, versions, and short numbers under plain labels."""
    column = _Column(indices, cells, [cell.strip(_QUOTES_AND_BLANKS) for cell in cells])
    if (technical := label.technical) is not None:
        column = column.only([technical.fullmatch(inner) is None for inner in column.inner])
    if not words and not label.names_values:
        column = column.only(
            [len(inner) > LONGEST_SHORT_NUMBER or is_short_number(inner) is None for inner in column.inner]
        )
    return column


def _fillable(column: _Column) -> Sequence[bool]:
    """Returns for each cell whether one value may fill it: the cell is short, has one line, and no inner quote."""
    if max(map(len, column.cells), default=0) <= LONGEST_WHOLE:
        text = "".join(column.inner)
        if '"' not in text and "\n" not in text:
            return [True] * len(column.cells)
    return [
        len(cell) <= LONGEST_WHOLE and '"' not in inner and "\n" not in inner
        for cell, inner in zip(column.cells, column.inner, strict=True)
    ]


def _named(label: CellLabel, column: _Column) -> dict[int, list[Value]]:
    """Returns the values of cells by their label alone, by the index of the cell."""
    plain = [
        normalised(inner) if len(cell) <= LONGEST_WHOLE else ""
        for cell, inner in zip(column.cells, column.inner, strict=True)
    ]
    given = label.values(column.cells, plain)
    return {
        index: [(*_bounds(cell, inner), value[1], value[0])]
        for index, cell, inner, value in zip(*column, given, strict=True)
        if value is not None
    }


def _find_whole(
    rules: WholeCells, label: CellLabel, words: frozenset[str], column: _Column, found: CellValues
) -> Sequence[int]:
    """Adds the cells of a label that are one value to `found`; returns the indices of the others."""
    if not column.indices:
        return []
    plain = normalised("\n".join(column.inner)).split("\n")
    values = rules.values(plain, words, label.values(column.cells, plain))
    if not any(values):
        return column.indices
    for index, cell, inner, value in zip(*column, values, strict=True):
        if value is None:
            continue
        if len(inner) == len(cell):
            found.whole[index] = value
        else:
            found.parts[index] = [(*_bounds(cell, inner), value[1], value[0])]
    return list(itertools.compress(column.indices, [value is None for value in values]))


def _searched(
    finder: Finder, cells: Sequence[str], labels: Sequence[str], chosen: Sequence[int], named: dict[int, list[Value]]
) -> Iterator[tuple[int, list[Value]]]:
    """Yields (cell index, values) for the chosen cells; `named` has values by labels, by the index of the cell."""
    texts = [cells[index] for index in chosen]
    starts = list(itertools.accumulate((len(text) + 1 for text in texts), initial=0))
    piece_labels = PieceLabels(starts, labels)
    # A cell longer than a window has matches in several windows; only secret blocks reach into other cells.
    joined_text = "\n".join(texts)
    each = finder.find_each(joined_text, piece_labels, by_rules_only=True)
    following = split_by_pieces(joined_text, each, starts, piece_labels.piece_at)
    for piece, group in itertools.groupby(following, lambda value: piece_labels.piece_at(value[0])):
        low, size = starts[piece], len(texts[piece])
        found = [(start - low, min(end - low, size), entity, score) for start, end, entity, score in group]
        yield chosen[piece], joined(sorted(found + named.pop(chosen[piece], [])))
    yield from named.items()


def _bounds(cell: str, inner: str) -> tuple[int, int]:
    start = cell.index(inner)
    return start, start + len(inner)
