"""One sweep of a document: finds, counts and replaces values in texts, streams and cells, in bounded memory."""

import bisect
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from redaction.counts import Counts
from redaction.entity_types import ENTITY_TYPES
from redaction.rules.rule import REACH, Match, Value, line_above
from redaction.search.cells import CellValues, find_in_cells
from redaction.search.document_regions import DocumentRegions
from redaction.search.finder import Finder
from redaction.search.key_members import open_key
from redaction.search.known_names import KnownNames
from redaction.search.secret_blocks import open_block
from redaction.search.spans import joined, replaced, resolved

_BATCH: Final = 512 * 1024

_Result = tuple[str, list[str]]
# Results of cells that are one value.
_WHOLE: Final[dict[str, _Result]] = {entity: (f"[{entity}]", [entity]) for entity in ENTITY_TYPES}


class Sweep:
    """Sweep that finds and counts values, and replaces them if the policy redacts."""

    def __init__(
        self,
        finder: Finder,
        categories: frozenset[str],
        floor: float,
        *,
        redacts: bool,
        phone_regions: frozenset[str] = frozenset(),
        names: KnownNames | None = None,
        regions: DocumentRegions | None = None,
        on_found: Callable[[str, str, float], None] | None = None,
    ) -> None:
        self.counts = Counts()
        self.redacts = redacts
        self._phone_regions = phone_regions
        self._regions = regions or DocumentRegions(phone_regions)
        self._finder = finder.in_regions(self._regions)
        self._categories = categories
        self._floor = floor
        self._names = names or (KnownNames() if "PERSON" in categories else None)
        self._on_found = on_found

    @property
    def by_rules_only(self) -> bool:
        """Returns whether no model is asked."""
        return self._finder.by_rules_only

    def with_empty_counts(self) -> "Sweep":
        """Returns a new sweep by this policy, with empty counts."""
        return Sweep(
            self._finder,
            self._categories,
            self._floor,
            redacts=self.redacts,
            phone_regions=self._phone_regions,
            on_found=self._on_found,
        )

    def part(self, *, redacts: bool | None = None) -> "Sweep":
        """Returns a sweep for another part of the document, which shares known names and countries.

        `redacts` overrides the policy.
        """
        replaces = self.redacts if redacts is None else redacts
        return Sweep(
            self._finder,
            self._categories,
            self._floor,
            redacts=replaces,
            phone_regions=self._phone_regions,
            names=self._names,
            regions=self._regions,
            on_found=self._on_found,
        )

    def text(self, text: str) -> str:
        """Returns the swept text."""
        return self._replaced(text, joined(self._find_all(text)))

    def lines(self, above: str, text: str) -> tuple[str, str]:
        """Returns swept lines of a growing text, and the lines to pass as `above` with the next ones."""
        whole = above + text
        end = len(whole)
        swept = swept_part(whole, len(above), end, self._finder.find_all(whole), self._replaced)
        return swept, whole[min(line_above(whole, end), open_block(whole, 0, end)) :]

    def stream(self, blocks: Iterable[str], *, by_rules_only: bool = False) -> Iterator[str]:
        """Yields the swept text block by block.

        `by_rules_only` is for a text whose values are swept already: a model would take keys and marks between them for
        values.
        """
        return sweep_stream(blocks, self._find_by_rules if by_rules_only else self._find_all, self._replaced)

    def _find_by_rules(self, text: str) -> list[Value]:
        return self._find_all(text, by_rules_only=True)

    def _find_all(self, text: str, *, by_rules_only: bool = False) -> list[Value]:
        """Returns the matches in a part of a document, and further occurrences of known names."""
        self._regions.read(text)
        values = self._finder.find_all(text, by_rules_only=by_rules_only)
        again = self._names.repeated(text, values) if self._names is not None else []
        return sorted(values + again) if again else values

    def cells(self, cells: Sequence[str], labels: Sequence[str]) -> dict[int, str]:
        """Returns the new text of each cell that changes, by its index; `labels` name the cells' columns or keys.

        Equal cells with equal labels are searched once.
        """
        found = self._found(cells, labels)
        results = found.values()
        self.counts.categories.update([entity for _, entities in results for entity in entities])
        return dict(zip(found, [text for text, _ in results], strict=True)) if self.redacts else {}

    def _found(self, cells: Sequence[str], labels: Sequence[str]) -> dict[int, _Result]:
        """Returns the new text and the entity types of each cell with values, by its index."""
        self._regions.read_cells(cells, labels)
        found = find_in_cells(self._finder, self._categories, self._floor, cells, labels)
        results = {index: _WHOLE[entity] for index, (_, entity) in found.whole.items()}
        if self._on_found is not None:
            for index, (score, entity) in found.whole.items():
                self._on_found(entity, cells[index], score)
        if self._names is not None:
            if not self._names.full:
                self._names.learn(_persons(cells, found))
            if not self._names.empty:
                # A cell that is one value holds no other value.
                chosen = [first for first in found.searched() if not _is_one(cells[first], found.parts.get(first, ()))]
                self._add_known(self._names, cells, chosen, found.parts)
        found.repeat()
        for index, values in found.parts.items():
            results[index] = replaced(cells[index], values), [entity for _, _, entity, _ in values]
            self._report(cells[index], values)
        return results

    @staticmethod
    def _add_known(
        names: KnownNames, cells: Sequence[str], chosen: Sequence[int], found: dict[int, list[Value]]
    ) -> None:
        """Adds occurrences of known names to the values found in the chosen cells."""
        starts = list(itertools.accumulate((len(cells[index]) + 1 for index in chosen), initial=0))
        again = names.find("\n".join([cells[index] for index in chosen]))
        for place, group in itertools.groupby(again, lambda value: bisect.bisect_right(starts, value[0]) - 1):
            index, low = chosen[place], starts[place]
            values = [(start - low, end - low, entity, score) for start, end, entity, score in group]
            found[index] = joined(sorted(found.get(index, []) + values))

    def values(self, text: str, cells: Sequence[tuple[int, str, str]] = ()) -> list[Value]:
        """Returns and counts the values in a text, in order and disjoint; the caller replaces them.

        `cells` are labelled parts of the text: start, text and label of each.
        """
        more: list[Value] = []
        labels = [label for _, _, label in cells]
        texts = [cell for _, cell, _ in cells]
        found = find_in_cells(self._finder, self._categories, self._floor, texts, labels)
        found.repeat()
        for index, (score, entity) in found.whole.items():
            low, cell, _ = cells[index]
            more.append((low, low + len(cell), entity, score))
        for index, inside in found.parts.items():
            low = cells[index][0]
            more += [(start + low, end + low, entity, score) for start, end, entity, score in inside]
        values = joined(sorted(self._find_all(text) + more))
        self._count(text, values)
        return values

    def matches(self, text: str) -> list[Match]:
        """Returns the rules' matches in a short text, such as a name, without counting and without a model."""
        return resolved(self._finder.find_all(text, by_rules_only=True))

    def _replaced(self, text: str, values: Sequence[Value]) -> str:
        self._count(text, values)
        return replaced(text, values) if self.redacts else text

    def _count(self, text: str, values: Sequence[Value]) -> None:
        self.counts.categories.update([entity for _, _, entity, _ in values])
        self._report(text, values)

    def _report(self, text: str, values: Sequence[Value]) -> None:
        if self._on_found is not None:
            for start, end, entity, score in values:
                self._on_found(entity, text[start:end], score)


def _is_one(cell: str, values: Sequence[Value]) -> bool:
    """Returns whether a cell is one value, apart from a quote or blank on either side."""
    return len(values) == 1 and values[0][0] < 2 and values[0][1] > len(cell) - 2


def _persons(cells: Sequence[str], found: CellValues) -> Iterator[tuple[str, float]]:
    """Yields the names in cells with their scores: names that are whole cells first, then by cell."""
    searched = set(found.searched())
    filled = [index for index, (_, entity) in found.whole.items() if entity == "PERSON"]
    filled += [index for index in found.parts if index not in searched]
    for index in (*sorted(filled), *sorted(searched & found.parts.keys())):
        if (one := found.whole.get(index)) is not None:
            yield cells[index], one[0]
            continue
        for start, end, entity, score in found.parts[index]:
            if entity == "PERSON":
                yield cells[index][start:end], score


def sweep_stream(
    blocks: Iterable[str],
    find_all: Callable[[str], Sequence[Value]],
    swept: Callable[[str, Sequence[Value]], str],
    batch: int = _BATCH,
) -> Iterator[str]:
    """Yields the swept text block by block; holds about `batch` characters.

    A batch ends at a line break or, in a longer line, between two values; REACH characters are kept as context of the
    next batch. A chain of overlapping values that fills a batch is cut, and yields a replacement on either side.
    """
    text = ""
    done = 0
    for block in blocks:
        text += block
        if len(text) - done < max(batch, 2 * REACH):
            continue
        if (end := text.rfind("\n", done) + 1) > done:
            # A secret of many lines is kept whole, unless it fills the batch.
            end = min(open_block(text, done, end), open_key(text, done, end))
            if end == done:
                end = text.rfind("\n", done) + 1
            yield swept_part(text[:end], done, end, find_all(text[:end]), swept)
            kept_from = line_above(text, end)
            text, done = text[kept_from:], end - kept_from
            continue
        matches = find_all(text)
        end = _between(matches, done, len(text) - REACH)
        yield swept_part(text, done, end, matches, swept)
        kept_from = max(end - REACH, 0)
        text, done = text[kept_from:], end - kept_from
    if len(text) > done:
        yield swept_part(text, done, len(text), find_all(text), swept)


def _between(matches: Sequence[Value], done: int, latest: int) -> int:
    for group in reversed(resolved(matches)):
        if group.start < latest < group.end:
            return group.start if group.start > done else latest
    return latest


def swept_part(
    text: str, start: int, end: int, values: Sequence[Value], swept: Callable[[str, Sequence[Value]], str]
) -> str:
    """Returns a part of a text with its values replaced, including values that reach into the part."""
    inner_values = [
        (max(low, start) - start, min(high, end) - start, entity, score)
        for low, high, entity, score in values
        if high > start and low < end
    ]
    return swept(text[start:end], resolved(inner_values))
