"""One sweep of a text, a value or a file, with its counts."""

import itertools
from collections.abc import Iterable, Iterator, Sequence

from backend.redaction.counts import Counts
from backend.redaction.rules.rule import Match, Value
from backend.redaction.search.cells import find_in_cells
from backend.redaction.search.finder import Finder
from backend.redaction.search.spans import replaced, resolved
from backend.redaction.search.stream import sweep_stream, swept_part


class Sweep:
    """Finder of values that counts them, and replaces them where the policy redacts."""

    def __init__(self, finder: Finder, categories: frozenset[str], floor: float, *, redacts: bool) -> None:
        self.counts = Counts()
        self.redacts = redacts
        self._finder = finder
        self._categories = categories
        self._floor = floor

    def again(self, *, redacts: bool | None = None) -> "Sweep":
        """Returns a new sweep by the same policy, with nothing counted; `redacts` may say otherwise than the policy."""
        replaces = self.redacts if redacts is None else redacts
        return Sweep(self._finder, self._categories, self._floor, redacts=replaces)

    def text(self, text: str) -> str:
        """Returns the swept text."""
        return self._replaced(text, self._finder.find_values(text))

    def lines(self, above: str, text: str) -> str:
        """Returns swept lines of a text of which `above` are the lines before them, as far as rules look up."""
        whole = above + text
        return swept_part(whole, len(above), len(whole), self._finder.find_all(whole), self._replaced)

    def stream(self, blocks: Iterable[str]) -> Iterator[str]:
        """Yields the swept text block by block."""
        return sweep_stream(blocks, self._finder.find_all, self._replaced)

    def cells(self, cells: Sequence[str], labels: Sequence[str]) -> dict[int, str]:
        """Returns the new text of each cell that changes, by its index; `labels` name the cells' columns or keys.

        Equal cells with equal labels are searched once, unless a model is asked.
        """
        pairs = list(zip(cells, labels, strict=True))
        distinct = list(dict.fromkeys(pairs)) if self._finder.by_rules_only else pairs
        found = dict(self._found(distinct))
        if not found:
            return {}
        if len(distinct) == len(pairs):
            indices = list(found)
            results = list(found.values())
        else:
            by_pair = {distinct[index]: result for index, result in found.items()}
            indices = [index for index, pair in enumerate(pairs) if pair in by_pair]
            results = [by_pair[pairs[index]] for index in indices]
        self.counts.categories.update(itertools.chain.from_iterable([entities for _, entities in results]))
        return {index: text for index, (text, _) in zip(indices, results, strict=True)} if self.redacts else {}

    def _found(self, pairs: Sequence[tuple[str, str]]) -> Iterator[tuple[int, tuple[str, list[str]]]]:
        """Yields the index, the new text and the entity types of each cell and label with values."""
        cells = [cell for cell, _ in pairs]
        labels = [label for _, label in pairs]
        for index, values in find_in_cells(self._finder, self._categories, self._floor, cells, labels):
            yield index, (replaced(cells[index], values), [entity for _, _, entity, _ in values])

    def values(self, text: str) -> list[Value]:
        """Returns the values in a text, in order, none overlapping, and counts them; the caller replaces them."""
        values = self._finder.find_values(text)
        self.counts.categories.update([entity for _, _, entity, _ in values])
        return values

    def matches(self, text: str) -> list[Match]:
        """Returns what the rules find in a name or another short text; does not count it, and asks no model."""
        return resolved(self._finder.find_all(text, by_rules_only=True))

    def _replaced(self, text: str, values: Sequence[Value]) -> str:
        self.counts.categories.update([entity for _, _, entity, _ in values])
        return replaced(text, values) if self.redacts else text
