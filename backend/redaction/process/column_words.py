"""Weighs what the local model says of the words of a column of a table by what it says of the whole column."""

import bisect
import math
from collections import Counter
from collections.abc import Sequence
from typing import Final

from backend.redaction.model import Column
from backend.redaction.process.word import Word

# What fewer cells, or cells of more words, say of their column is not enough.
_LEAST_CELLS: Final = 4
_MOST_WORDS: Final = 5
# A column counts fully with so many cells.
_ENOUGH_CELLS: Final = 8
_WEIGHT: Final = 1.5
# The average likelihood of a column that says nothing of its cells.
_EVEN: Final = 0.2
_LEAST: Final = 0.001


def weighed(text: str, words: Sequence[Word], columns: Sequence[Column]) -> list[Word]:
    """Returns the words of a text with their likelihoods in columns moved towards that of the column.

    A cell of a column of names is likely a name, even where the model has not seen it before, and a word in a column of
    states or colours is not, even if it looks like a name.
    """
    starts = [word.start for word in words]
    weighed_words = list(words)
    for column in columns:
        low, high = bisect.bisect_left(starts, column.start), bisect.bisect_left(starts, column.end)
        weighed_words[low:high] = _weighed(text, words[low:high], column)
    return weighed_words


def _weighed(text: str, words: Sequence[Word], column: Column) -> Sequence[Word]:
    cells: dict[int, list[Word]] = {}
    for word in words:
        start = text.rfind("\n", column.start, word.start) + 1 or column.start
        if word.start >= start + column.prefix:
            cells.setdefault(start, []).append(word)
    if len(cells) < _LEAST_CELLS or sum(map(len, cells.values())) > _MOST_WORDS * len(cells):
        return words
    average = sum(map(_mean, cells.values())) / len(cells)
    weight = _WEIGHT * min(len(cells) / _ENOUGH_CELLS, 1.0)
    shift = weight * (_logit(average) - _logit(_EVEN))
    shares: Counter[str] = Counter()
    for cell in cells.values():
        for word in cell:
            shares[word.entity] += word.likelihood  # type: ignore[assignment]  # typeshed: counts are integers
    [(entity, _)] = shares.most_common(1)
    inside = {word.start for cell in cells.values() for word in cell}
    return [
        word._replace(
            likelihood=1 / (1 + math.exp(-_logit(word.likelihood) - shift)),
            entity=entity if shift > 0 else word.entity,
        )
        for word in words
        if word.start in inside
    ]


def _mean(cell: Sequence[Word]) -> float:
    sizes = [word.end - word.start for word in cell]
    return sum(word.likelihood * size for word, size in zip(cell, sizes, strict=True)) / sum(sizes)


def _logit(share: float) -> float:
    share = min(max(share, _LEAST), 1 - _LEAST)
    return math.log(share / (1 - share))
