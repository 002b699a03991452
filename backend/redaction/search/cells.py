"""Finds values in many cells at once: joins them by line breaks, which no value crosses."""

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Final

from backend.redaction.rules.labels import label_entities, plain_label
from backend.redaction.rules.rule import Value
from backend.redaction.search.finder import Finder
from backend.redaction.search.piece_labels import PieceLabels
from backend.redaction.search.spans import joined
from backend.workflows.entity_types import ENTITY_TYPES

# A longer cell is no value by its label alone.
_LONGEST_LABELLED: Final = 500
# A replacement is no value.
_PLACEHOLDER: Final = re.compile(rf"\[(?:{'|'.join(sorted(ENTITY_TYPES))})\]")


def find_in_cells(
    finder: Finder, categories: frozenset[str], floor: float, cells: Sequence[str], labels: Sequence[str]
) -> Iterator[tuple[int, list[Value]]]:
    """Yields the index and the values of each cell that has any; `labels` name their columns or keys, "" for none."""
    starts = list(itertools.accumulate((len(cell) + 1 for cell in cells), initial=0))
    piece_labels = PieceLabels(starts, [plain_label(label) for label in labels])
    by_label: dict[int, list[Value]] = {}
    for label, pieces in piece_labels.pieces():
        entities = [
            (entity, score) for entity, score in label_entities(label) if entity in categories and score >= floor
        ]
        if entities:
            for piece in pieces:
                if _may_be_value(cell := cells[piece]):
                    by_label[piece] = [(*_bounds(cell), *entity) for entity in entities]
    # A cell that is longer than a window has matches in several.
    following = finder.find_each("\n".join(cells), piece_labels)
    for index, group in itertools.groupby(following, lambda value: piece_labels.piece_at(value[0])):
        low, size = starts[index], len(cells[index])
        found = [(start - low, min(end - low, size), entity, score) for start, end, entity, score in group]
        yield index, joined(sorted(found + by_label.pop(index)) if index in by_label else found)
    for index, values_alone in by_label.items():
        yield index, joined(sorted(values_alone)) if len(values_alone) > 1 else values_alone


def _may_be_value(cell: str) -> bool:
    return (
        len(cell) <= _LONGEST_LABELLED
        and any(map(str.isalnum, _PLACEHOLDER.sub("", cell) if "[" in cell else cell))
        and cell.lower() not in {"null", "none", "true", "false"}
    )


def _bounds(cell: str) -> tuple[int, int]:
    inner = cell.strip(' \t\r\n"')
    start = cell.index(inner)
    return start, start + len(inner)
