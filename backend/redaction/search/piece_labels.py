"""Which parts of a text stand under which column's or key's name."""

import bisect
import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence

from backend.redaction.rules.rule import Zone
from backend.redaction.search.contexts import search_words, word_spans


class Labelled:
    """The plain labels of the pieces of a text, each from one of `starts` to the next; the last start is the end."""

    def __init__(self, starts: Sequence[int], labels: Sequence[str]) -> None:
        self._starts = starts
        self._labels = labels
        self._pieces: dict[str, list[int]] = defaultdict(list)
        for piece, label in enumerate(labels):
            self._pieces[label].append(piece)
        self._any: list[str] | None = None
        self._told: dict[str, list[int]] = {}

    def at(self, place: int) -> str:
        """The label of what stands at a place."""
        return self._labels[self.piece_at(place)]

    def piece_at(self, place: int) -> int:
        """Which piece stands at a place."""
        return bisect.bisect_right(self._starts, place) - 1

    def pieces(self) -> Iterable[tuple[str, Sequence[int]]]:
        """Every label with the pieces that it has."""
        return self._pieces.items()

    def apart(self, first: int, second: int) -> bool:
        """Whether two places are in different pieces."""
        return self.piece_at(first) != self.piece_at(second)

    @staticmethod
    def _labels_with(words: str, labels: Sequence[str]) -> list[str]:
        """Those labels that hold one of some context words, all read at once."""
        raw = "\n".join(["", *labels, ""]).encode("latin-1", "replace")
        plain = raw[1:-1].decode("latin-1")
        starts = list(itertools.accumulate((len(label) + 1 for label in labels), initial=0))
        spans = word_spans(words, search_words(words), plain + "\n", raw, (0, len(plain)))
        return [labels[piece] for piece in dict.fromkeys(bisect.bisect_right(starts, at) - 1 for at, _ in spans)]

    def told(self, words: str, any_words: str, low: int, high: int) -> list[Zone]:
        """What lies between two places, in order, of the pieces whose label holds one of some context words.

        `any_words` are those of all rules: most labels hold none.
        """
        if (told := self._told.get(words)) is None:
            if self._any is None:
                self._any = self._labels_with(any_words, [*self._pieces])
            found = [self._pieces[label] for label in self._labels_with(words, self._any)]
            told = self._told[words] = sorted(itertools.chain(*found))
        if not told:
            return []
        starts = self._starts
        first = bisect.bisect_left(told, self.piece_at(low))
        last = bisect.bisect_right(told, self.piece_at(high - 1))
        return [(max(starts[piece], low), starts[piece + 1]) for piece in told[first:last]]


class Part:
    """The labels of a text as seen from the part of it that begins at `low` and has `size` characters."""

    def __init__(self, labelled: Labelled, low: int, size: int) -> None:
        self._labelled = labelled
        self._low = low
        self._high = low + size

    def at(self, place: int) -> str:
        """The label of what stands at a place of the part."""
        return self._labelled.at(self._low + place)

    def apart(self, first: int, second: int) -> bool:
        """Whether two places of the part are in different pieces."""
        return self._labelled.apart(self._low + first, self._low + second)

    def told(self, words: str, any_words: str) -> list[Zone]:
        """The zones of the part, in order, whose label holds one of some context words."""
        low = self._low
        return [(start - low, end - low) for start, end in self._labelled.told(words, any_words, low, self._high)]
