"""One sweep of a text, a value or a file, with its counts."""

import itertools
from collections.abc import Iterable, Iterator, Sequence

from backend.redaction.counts import Counts
from backend.redaction.rules.rule import Match, Value
from backend.redaction.search.cells import find_in_cells
from backend.redaction.search.finder import Finder
from backend.redaction.search.known_names import KnownNames
from backend.redaction.search.spans import joined, replaced, resolved
from backend.redaction.search.stream import sweep_stream, swept_part


class Sweep:
    """Finder of values that counts them, and replaces them where the policy redacts."""

    def __init__(self, finder: Finder, categories: frozenset[str], floor: float, *, redacts: bool) -> None:
        self.counts = Counts()
        self.redacts = redacts
        self._finder = finder
        self._categories = categories
        self._floor = floor
        self._names = KnownNames() if "PERSON" in categories else None

    def again(self) -> "Sweep":
        """Returns a new sweep by the same policy, with nothing counted."""
        return Sweep(self._finder, self._categories, self._floor, redacts=self.redacts)

    def text(self, text: str) -> str:
        """Returns the swept text."""
        return self._replaced(text, resolved(self._find_all(text)))

    def lines(self, above: str, text: str) -> str:
        """Returns swept lines of a text of which `above` are the lines before them, as far as rules look up."""
        whole = above + text
        return swept_part(whole, len(above), len(whole), self._finder.find_all(whole), self._replaced)

    def stream(self, blocks: Iterable[str]) -> Iterator[str]:
        """Yields the swept text block by block."""
        return sweep_stream(blocks, self._find_all, self._replaced)

    def _find_all(self, text: str) -> list[Value]:
        """Returns the matches in a part of a document, and the names in it that it held already."""
        values = self._finder.find_all(text)
        again = self._names.repeated(text, values) if self._names is not None else []
        return sorted(values + again) if again else values

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
        found = dict(find_in_cells(self._finder, self._categories, self._floor, cells, labels))
        if self._names is not None:
            self._add_known(self._names, cells, found)
        for index, values in found.items():
            yield index, (replaced(cells[index], values), [entity for _, _, entity, _ in values])

    @staticmethod
    def _add_known(names: KnownNames, cells: Sequence[str], found: dict[int, list[Value]]) -> None:
        """Adds the names that other cells held to the values found in cells."""
        for index, values in found.items():
            cell = cells[index]
            names.learn([(cell[start:end], score) for start, end, entity, score in values if entity == "PERSON"])
        for index, cell in enumerate(cells):
            # What is one value from end to end has no other.
            if (index not in found or _length(found[index]) < len(cell) - 2) and (again := names.find(cell)):
                found[index] = joined(sorted(found.get(index, []) + again))

    def matches(self, text: str) -> list[Match]:
        """Returns what the rules find in a name or another short text; does not count it, and asks no model."""
        return resolved(self._finder.find_all(text, by_rules_only=True))

    def _replaced(self, text: str, values: Sequence[Value]) -> str:
        self.counts.categories.update([entity for _, _, entity, _ in values])
        return replaced(text, values) if self.redacts else text


def _length(values: Sequence[Value]) -> int:
    return sum(end - start for start, end, _, _ in values)
