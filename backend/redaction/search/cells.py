"""Sweeps many short values at once, joined by line breaks, which no rule crosses."""

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Final

from backend.redaction.formats.labelled import Labelled
from backend.redaction.rules.labels import plain_label, telling
from backend.redaction.rules.rule import Value
from backend.redaction.search.finder import Finder
from backend.redaction.search.spans import joined
from backend.workflows.entity_types import ENTITY_TYPES

# A whole value is the place of what its label tells only when it holds more than marks.
_LONGEST_TOLD: Final = 500
# What stands in the place of a value is none.
_PLACEHOLDER: Final = re.compile(rf"\[(?:{'|'.join(sorted(ENTITY_TYPES))})\]")


def find_in_cells(
    finder: Finder, categories: frozenset[str], floor: float, cells: Sequence[str], labels: Sequence[str]
) -> Iterator[tuple[int, list[Value]]]:
    """The index of each cell that has values, and these; `labels` name the cells' columns or keys, "" for none."""
    starts = list(itertools.accumulate((len(cell) + 1 for cell in cells), initial=0))
    labelled = Labelled(starts, [plain_label(label) for label in labels])
    told: dict[int, list[Value]] = {}
    for label, pieces in labelled.pieces():
        if values := [(entity, score) for entity, score in telling(label) if entity in categories and score >= floor]:
            for piece in pieces:
                if _holds_something(cell := cells[piece]):
                    told[piece] = [(*_bounds(cell), *value) for value in values]
    # A cell that is longer than a window has matches in several.
    following = finder.find_each("\n".join(cells), labelled)
    for index, group in itertools.groupby(following, lambda value: labelled.piece_at(value[0])):
        low, size = starts[index], len(cells[index])
        found = [(start - low, min(end - low, size), entity, score) for start, end, entity, score in group]
        yield index, joined(sorted(found + told.pop(index)) if index in told else found)
    for index, values_alone in told.items():
        yield index, joined(sorted(values_alone)) if len(values_alone) > 1 else values_alone


def _holds_something(cell: str) -> bool:
    return (
        len(cell) <= _LONGEST_TOLD
        and any(map(str.isalnum, _PLACEHOLDER.sub("", cell) if "[" in cell else cell))
        and cell.lower() not in {"null", "none", "true", "false"}
    )


def _bounds(cell: str) -> tuple[int, int]:
    inner = cell.strip(' \t\r\n"')
    start = cell.index(inner)
    return start, start + len(inner)
