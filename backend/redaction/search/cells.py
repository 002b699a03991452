"""Finds values in many cells at once: joins them by line breaks, which no value crosses."""

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Final

from backend.redaction.rules.labels import NAMED_SCORE, is_name, label_entities, may_name, plain_label
from backend.redaction.rules.rule import Value
from backend.redaction.search.asked_cells import asked_values
from backend.redaction.search.characters import normalised
from backend.redaction.search.finder import Finder
from backend.redaction.search.piece_labels import PieceLabels
from backend.redaction.search.spans import joined
from backend.redaction.search.whole_cells import LONGEST as LONGEST_WHOLE
from backend.redaction.search.whole_cells import Found, is_quiet
from backend.workflows.entity_types import ENTITY_TYPES

# A longer cell is no value by its label alone.
_LONGEST_LABELLED: Final = 500
# A replacement is no value.
_PLACEHOLDER: Final = re.compile(rf"\[(?:{'|'.join(sorted(ENTITY_TYPES))})\]")
_NOTHING: Final = frozenset({"null", "none", "true", "false"})
# What a machine writes beside a message, under names of such times: a date with a time to the second.
_ZONE: Final = "(?:Z|UTC|[+-][0-9]{2}:?[0-9]{2})"
_LOGGED: Final = re.compile(
    rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[Tt ][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(?:[.,][0-9]{{1,9}})?(?: ?{_ZONE})?"
)
# As a header of a mail has it.
_MAILED: Final = re.compile(
    "[A-Z][a-z]{2}, [0-9]{1,2} [A-Z][a-z]{2} [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} (?:[+-][0-9]{4}|[A-Z]{3})"
)
_MACHINE_TIMES: Final = dict.fromkeys(
    ("ts", "time", "timestamp", "log time", "logged at", "event time", "generated", "generated at"), _LOGGED
) | {"date": _MAILED}
_AROUND: Final = ' \t\r\n"'


def find_in_cells(
    finder: Finder, categories: frozenset[str], floor: float, cells: Sequence[str], labels: Sequence[str]
) -> Iterator[tuple[int, list[Value]]]:
    """Yields the index and the values of each cell that has any; `labels` name their columns or keys, "" for none."""
    by_label = {label: _Label(label, categories, floor) for label in set(labels)}
    words = finder.whole_cells.words_in({label.plain for label in by_label.values()})
    for label in by_label.values():
        label.words = words.get(label.plain, frozenset())
    searched: list[int] = []
    named: dict[int, list[Value]] = {}
    whole = finder.whole_cells.value
    for index, (cell, name) in enumerate(zip(cells, labels, strict=True)):
        label = by_label[name]
        inner = cell.strip(_AROUND)
        beside = label.words
        quiet = not beside and is_quiet(inner)
        if (quiet and label.best is None) or (label.machine_time and label.machine_time.fullmatch(inner)):
            continue
        given = label.value(cell, inner)
        if len(cell) <= LONGEST_WHOLE and '"' not in inner and "\n" not in inner:
            found = whole(inner, beside)
            if found is None or (given is not None and given > found):
                found = given
            if found is not None:
                start = 0 if inner == cell else cell.index(inner)
                yield index, [(start, start + len(inner), found[1], found[0])]
                continue
            if quiet:
                continue
        searched.append(index)
        if given is not None:
            named[index] = [(*_bounds(cell), given[1], given[0])]
    asked = asked_values(finder, cells, labels, [index for index in searched if index not in named])
    for index, values in _searched(finder, cells, [by_label[label].plain for label in labels], searched, named):
        more = asked.pop(index, None)
        yield index, joined(sorted(values + more)) if more else values
    yield from ((index, joined(sorted(values))) for index, values in asked.items())


class _Label:
    """What the name of a column or key says of the values under it."""

    def __init__(self, label: str, categories: frozenset[str], floor: float) -> None:
        self.plain = plain_label(label)
        self.words: frozenset[str] = frozenset()
        self.machine_time = _MACHINE_TIMES.get(self.plain)
        entities = [
            (score, entity) for entity, score in label_entities(self.plain) if entity in categories and score >= floor
        ]
        self.best: Found | None = max(entities, default=None)
        # What a cell in the form of a name is under a label that may also name something else.
        self.may_name: Found | None = None
        if self.best is None and "PERSON" in categories and floor <= NAMED_SCORE and may_name(self.plain):
            self.may_name = NAMED_SCORE, "PERSON"

    def value(self, cell: str, inner: str) -> Found | None:
        """Returns what a cell is by its label alone; `inner` is the cell without quotes and blanks around it."""
        given = self.best
        if given is None and self.may_name and len(cell) <= LONGEST_WHOLE and is_name(normalised(inner)):
            given = self.may_name
        return given if given is not None and _may_be_value(cell) else None


def _searched(
    finder: Finder, cells: Sequence[str], labels: Sequence[str], chosen: Sequence[int], named: dict[int, list[Value]]
) -> Iterator[tuple[int, list[Value]]]:
    """Yields the same for the chosen cells; `named` are the values that labels tell of, by the index of the cell."""
    texts = [cells[index] for index in chosen]
    starts = list(itertools.accumulate((len(text) + 1 for text in texts), initial=0))
    piece_labels = PieceLabels(starts, [labels[index] for index in chosen])
    # A cell that is longer than a window has matches in several.
    following = finder.find_each("\n".join(texts), piece_labels, by_rules_only=True)
    for piece, group in itertools.groupby(following, lambda value: piece_labels.piece_at(value[0])):
        low, size = starts[piece], len(texts[piece])
        found = [(start - low, min(end - low, size), entity, score) for start, end, entity, score in group]
        yield chosen[piece], joined(sorted(found + named.pop(chosen[piece], [])))
    yield from named.items()


def _may_be_value(cell: str) -> bool:
    if len(cell) > _LONGEST_LABELLED:
        return False
    letters = cell.isalpha() or any(map(str.isalnum, _PLACEHOLDER.sub("", cell) if "[" in cell else cell))
    return letters and cell.lower() not in _NOTHING


def _bounds(cell: str) -> tuple[int, int]:
    inner = cell.strip(_AROUND)
    start = cell.index(inner)
    return start, start + len(inner)
