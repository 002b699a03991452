"""One sweep, of a text, a value or a file: what it finds is counted when it ends well."""

from collections.abc import Iterable, Iterator, Sequence

from backend.runtime.redaction.cells import find_in_cells
from backend.runtime.redaction.counts import Counts
from backend.runtime.redaction.finder import Finder
from backend.runtime.redaction.rule import Match, Value
from backend.runtime.redaction.spans import replaced, resolved
from backend.runtime.redaction.stream import sweep_stream


class Sweep:
    """Finds values and counts them; replaces them where the policy redacts."""

    def __init__(self, finder: Finder, categories: frozenset[str], floor: float, *, redacts: bool) -> None:
        self.counts = Counts()
        self.redacts = redacts
        self._finder = finder
        self._categories = categories
        self._floor = floor

    def again(self) -> "Sweep":
        """A new sweep by the same policy, with nothing counted."""
        return Sweep(self._finder, self._categories, self._floor, redacts=self.redacts)

    def text(self, text: str) -> str:
        """The swept text."""
        return self._replaced(text, self._finder.find_values(text))

    def stream(self, blocks: Iterable[str]) -> Iterator[str]:
        """The swept text, block by block."""
        return sweep_stream(blocks, self._finder.find_all, self._replaced)

    def cells(self, cells: Sequence[str], labels: Sequence[str]) -> dict[int, str]:
        """The new text of each cell that changes, by its index; `labels` name the cells' columns or keys."""
        changed: dict[int, str] = {}
        entities: list[str] = []
        for index, values in find_in_cells(self._finder, self._categories, self._floor, cells, labels):
            entities += [entity for _, _, entity, _ in values]
            if self.redacts:
                changed[index] = replaced(cells[index], values)
        self.counts.categories.update(entities)
        return changed

    def matches(self, text: str) -> list[Match]:
        """What the rules find in a name or another short text; not counted, and no model asked."""
        return resolved(self._finder.find_all(text, by_rules_only=True))

    def _replaced(self, text: str, values: Sequence[Value]) -> str:
        self.counts.categories.update([entity for _, _, entity, _ in values])
        return replaced(text, values) if self.redacts else text
