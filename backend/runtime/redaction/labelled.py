"""Which parts of a text stand under which column's or key's name."""

import bisect
import functools
import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence

from backend.runtime.redaction.rule import tells

# From one place up to another.
Zone = tuple[int, int]


class Labelled:
    """The plain labels of the pieces of a text, each from one of `starts` to the next; the last start is the end."""

    def __init__(self, starts: Sequence[int], labels: Sequence[str]) -> None:
        self._starts = starts
        self._labels = labels
        self._pieces: dict[str, list[int]] = defaultdict(list)
        for piece, label in enumerate(labels):
            self._pieces[label].append(piece)
        self._told = functools.cache(self._all_told)

    def at(self, place: int) -> str:
        """The label of what stands at a place."""
        return self._labels[self.piece_at(place)]

    def piece_at(self, place: int) -> int:
        """Which piece stands at a place."""
        return bisect.bisect_right(self._starts, place) - 1

    def pieces(self) -> Iterable[tuple[str, Sequence[int]]]:
        """Every label with the pieces that it has."""
        return self._pieces.items()

    def told(self, words: str, low: int, high: int) -> list[Zone]:
        """The zones between two places whose label holds one of some context words, as seen from the first place."""
        zones = self._told(words)
        # The zone before the first that begins here may reach into the part.
        first = max(bisect.bisect_left(zones, (low, low)) - 1, 0)
        last = bisect.bisect_left(zones, (high, high))
        return [(max(start - low, 0), end - low) for start, end in zones[first:last] if end > low]

    def _all_told(self, words: str) -> list[Zone]:
        told = [pieces for label, pieces in self._pieces.items() if tells(words, label)]
        return [(self._starts[piece], self._starts[piece + 1]) for piece in sorted(itertools.chain(*told))]
