"""Sweeps many short values at once, joined by line breaks, which no rule crosses."""

import bisect
import itertools
from collections.abc import Sequence
from typing import Final

from backend.runtime.redaction.finder import Finder
from backend.runtime.redaction.labels import plain_label, telling
from backend.runtime.redaction.rule import Match
from backend.runtime.redaction.spans import resolved

# A whole value is the place of what its label tells only when it holds more than marks.
_LONGEST_TOLD: Final = 500


def find_in_cells(
    finder: Finder, categories: frozenset[str], floor: float, cells: Sequence[str], labels: Sequence[str]
) -> dict[int, list[Match]]:
    """The values in each cell that has any; `labels` are the names of the cells' columns or keys, "" for none."""
    starts = list(itertools.accumulate((len(cell) + 1 for cell in cells), initial=0))
    plain = [plain_label(label) for label in labels]

    def label_at(place: int) -> str:
        return plain[bisect.bisect_right(starts, place) - 1]

    matches: dict[int, list[Match]] = {}
    text = "\n".join(cells)
    for match in finder.find_all(text, label_at, set(plain)):
        index = bisect.bisect_right(starts, match.start) - 1
        low = starts[index]
        end = min(match.end - low, len(cells[index]))
        matches.setdefault(index, []).append(match._replace(start=match.start - low, end=end))
    told = {label: _told(label, categories, floor) for label in set(plain)}
    if any(told.values()):
        for index, (cell, label) in enumerate(zip(cells, plain, strict=True)):
            if told[label] and _holds_something(cell):
                matches.setdefault(index, []).extend(Match(*_bounds(cell), *one) for one in told[label])
    return {index: found if len(found) == 1 else resolved(found) for index, found in matches.items()}


def _told(label: str, categories: frozenset[str], floor: float) -> list[tuple[str, float]]:
    return [(entity, score) for entity, score in telling(label) if entity in categories and score >= floor]


def _holds_something(cell: str) -> bool:
    return (
        len(cell) <= _LONGEST_TOLD
        and any(map(str.isalnum, cell))
        and cell.lower() not in {"null", "none", "true", "false"}
    )


def _bounds(cell: str) -> tuple[int, int]:
    inner = cell.strip(' \t\r\n"')
    start = cell.index(inner)
    return start, start + len(inner)
