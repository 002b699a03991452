"""Labels of the pieces of a joined text: the name of the column or key of each cell."""

import bisect
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from redaction.rules.rule import Zone
from redaction.search.contexts import search_words, word_spans


class PieceLabels:
    """Plain labels of the pieces of a text; a piece reaches from one of `starts` to the next, the last being the end.

    Not thread-safe, because it caches which labels hold which words.
    """

    def __init__(self, starts: Sequence[int], labels: Sequence[str]) -> None:
        self._starts = starts
        self._pieces: dict[str, list[int]] = defaultdict(list)
        for piece, label in enumerate(labels):
            self._pieces[label].append(piece)
        self._labels_with_any: list[str] | None = None
        self._pieces_by_words: dict[str, list[int]] = {}

    def moved(self, place: Callable[[int], int]) -> "PieceLabels":
        """Returns the labels for a text in which the pieces begin at other positions."""
        labels = [""] * sum(map(len, self._pieces.values()))
        for label, pieces in self._pieces.items():
            for piece in pieces:
                labels[piece] = label
        return PieceLabels([place(start) for start in self._starts], labels)

    def piece_at(self, place: int) -> int:
        """Returns the index of the piece at a position."""
        return bisect.bisect_right(self._starts, place) - 1

    def pieces(self) -> Iterable[tuple[str, Sequence[int]]]:
        """Returns every label with the indices of its pieces."""
        return self._pieces.items()

    def zones(self, words: str, any_words: str, low: int, high: int) -> list[Zone]:
        """Returns the zones, in order, of the pieces between two positions whose label holds a context word.

        `any_words` are the words of all rules: most labels hold none of them.
        """
        if (pieces := self._pieces_by_words.get(words)) is None:
            if self._labels_with_any is None:
                self._labels_with_any = _labels_with(any_words, [*self._pieces])
            found = [self._pieces[label] for label in _labels_with(words, self._labels_with_any)]
            pieces = self._pieces_by_words[words] = sorted(itertools.chain(*found))
        if not pieces:
            return []
        starts = self._starts
        first = bisect.bisect_left(pieces, self.piece_at(low))
        last = bisect.bisect_right(pieces, self.piece_at(high - 1))
        return [(max(starts[piece], low), starts[piece + 1]) for piece in pieces[first:last]]


class PartLabels:
    """View of a text's labels for the part that begins at `low` and has `size` characters."""

    def __init__(self, labels: PieceLabels, low: int, size: int) -> None:
        self._labels = labels
        self._low = low
        self._high = low + size

    def in_different_pieces(self, first: int, second: int) -> bool:
        """Returns whether two positions of the part are in different pieces."""
        piece_at, low = self._labels.piece_at, self._low
        return piece_at(low + first) != piece_at(low + second)

    def zones(self, words: str, any_words: str) -> list[Zone]:
        """Returns the zones of the part, in order, whose label holds a context word."""
        low = self._low
        return [(start - low, end - low) for start, end in self._labels.zones(words, any_words, low, self._high)]


def _labels_with(words: str, labels: Sequence[str]) -> list[str]:
    """Returns the labels that hold a context word, by one search over all labels."""
    raw = "\n".join(["", *labels, ""]).encode("latin-1", "replace")
    normalised_text = raw[1:-1].decode("latin-1")
    starts = list(itertools.accumulate((len(label) + 1 for label in labels), initial=0))
    spans = word_spans(words, search_words(words), normalised_text + "\n", raw, (0, len(normalised_text)))
    return [labels[piece] for piece in dict.fromkeys(bisect.bisect_right(starts, at) - 1 for at, _ in spans)]
