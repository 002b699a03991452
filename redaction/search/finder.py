"""Finds values in texts of any length, window by window, by the rules and by a model."""

import bisect
import copy
import functools
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from redaction.model import Column, Mention
from redaction.rules.labels import label_entities, plain_label
from redaction.rules.loader import all_rules
from redaction.rules.rule import ABOVE_REACH, Match, Rule, Value
from redaction.search.document_regions import DocumentRegions
from redaction.search.folding import Folded, has_hiding_escape, with_decoded_escapes, without_unseen
from redaction.search.key_members import find_members
from redaction.search.matching import scored_values
from redaction.search.names_beyond_rules import SPEAKER_SCORE, chat_speakers, names_in_scripts
from redaction.search.normalisation import normalised
from redaction.search.piece_labels import PartLabels, PieceLabels
from redaction.search.prefilter import Prefilter
from redaction.search.secret_blocks import ENTITY as BLOCK_ENTITY
from redaction.search.secret_blocks import SCORE as BLOCK_SCORE
from redaction.search.secret_blocks import find_blocks
from redaction.search.spans import joined, typed_by_rules, windows
from redaction.search.whole_cells import WholeCells

# Most levels of escapes, since an escape may be escaped itself.
_MOST_ESCAPES: Final = 3

_SHORTEST_QUOTE: Final = 2

Ask = Callable[[str, Collection[str], Sequence[Column]], Sequence[Mention]]


class Finder:
    """Finder by the rules of some entity types that can reach a least score, and optionally by a model."""

    def __init__(self, categories: Collection[str], floor: float, ask: Ask | None = None) -> None:
        self.rules = tuple(rule for rule in all_rules() if rule.entity in categories and rule.best_score >= floor)
        self._floor = floor
        self._ask = ask
        self._categories = sorted(categories)
        self._prefilter, self.whole_cells = _compiled(self.rules, floor)
        self._finds_blocks = BLOCK_ENTITY in categories and floor <= BLOCK_SCORE
        self._regions: DocumentRegions | None = None

    def in_regions(self, regions: DocumentRegions) -> "Finder":
        """Returns a finder that also finds values in the national forms of a document's countries."""
        finder = copy.copy(self)
        finder._regions = regions  # noqa: SLF001 - a copy of this finder
        return finder

    @property
    def by_rules_only(self) -> bool:
        """Returns whether no model is asked."""
        return self._ask is None

    def find(self, text: str, labels: PieceLabels | None = None) -> list[Match]:
        """Returns the values in a text, in order, none overlapping."""
        return [Match(*value) for value in self.find_values(text, labels)]

    def find_values(self, text: str, labels: PieceLabels | None = None) -> list[Value]:
        """Returns the values of `find` as plain tuples."""
        return joined(self.find_each(text, labels))

    def find_all(self, text: str, *, by_rules_only: bool = False) -> list[Value]:
        """Returns all matches in a text in order, even overlapping ones; each depends on REACH characters around it.

        A match that lies inside another match of the same rule may be missing.
        """
        return list(self.find_each(text, by_rules_only=by_rules_only))

    def find_each(
        self, text: str, labels: PieceLabels | None = None, *, by_rules_only: bool = False
    ) -> Iterator[Value]:
        """Yields the matches of `find_all` one by one."""
        return self._matches(text, labels, None, _MOST_ESCAPES, by_rules_only=by_rules_only)

    def _matches(
        self,
        text: str,
        labels: PieceLabels | None,
        searches: Callable[[int, int], bool] | None,
        escapes: int,
        *,
        by_rules_only: bool,
    ) -> Iterator[Value]:
        """Yields the matches in the windows that `searches` accepts, with up to `escapes` levels of escapes decoded."""
        if (seen := without_unseen(text)) is not None:
            moved = None if labels is None else labels.moved(seen.folded)
            chosen = None if searches is None else _moved_search(seen, searches)
            return _moved(seen, self._matches(seen.text, moved, chosen, escapes, by_rules_only=by_rules_only))
        values = self._window_matches(text, labels, searches, by_rules_only)
        if self._finds_blocks:
            blocks = [*find_blocks(text, None if labels is None else labels.piece_at), *find_members(text)]
            if blocks:
                values = iter(sorted([*values, *blocks]))
        if not escapes or (decoded := with_decoded_escapes(text)) is None:
            return values
        # The undecoded text is searched too, because an address would end at a decoded space.
        moved = None if labels is None else labels.moved(decoded.folded)
        chosen = _moved_search(decoded, lambda low, high: has_hiding_escape(text[low:high]))
        found = self._matches(decoded.text, moved, chosen, escapes - 1, by_rules_only=True)
        return iter(sorted([*values, *_moved(decoded, found)]))

    def asked_values(self, text: str, columns: Sequence[Column]) -> Iterator[Value]:
        """Yields the model's values in a text with columns of a table; values may overlap."""
        if self._ask is None:
            return
        for start, end, low, high in windows(text):
            here = [
                Column(max(column.start, low) - low, min(column.end, high) - low, column.prefix)
                for column in columns
                if column.start < high and column.end > low
            ]
            found = find_mentions(self._ask, text[low:high], self._categories, self._floor, low, here)
            yield from (value for value in sorted(found) if start <= value[0] < end)

    def _window_matches(
        self,
        text: str,
        labels: PieceLabels | None,
        searches: Callable[[int, int], bool] | None,
        by_rules_only: bool,
    ) -> Iterator[Value]:
        """Yields the matches in the windows that `searches` accepts; None accepts all."""
        ask = None if by_rules_only else self._ask
        normalised_text = normalised(text)
        persons = "PERSON" in self._categories
        for start, end, low, high in windows(normalised_text):
            if searches is not None and not searches(low, high):
                continue
            part = None if labels is None else PartLabels(labels, low, high - low)
            found = self._rule_matches(normalised_text[low:high], part, start, end, low)
            if persons and self._floor <= SPEAKER_SCORE:
                found += chat_speakers(text[low:high], low)
            if persons and not text.isascii():
                found += [one for one in names_in_scripts(text[low:high], low) if one[3] >= self._floor]
            if ask is not None:
                found.sort()
                guesses = find_mentions(ask, text[low:high], self._categories, self._floor, low)
                found += typed_by_rules(guesses, found)
            found.sort()
            yield from found[bisect.bisect_left(found, (start,)) : bisect.bisect_left(found, (end,))]

    def _rule_matches(self, part: str, labels: PartLabels | None, start: int, end: int, low: int) -> list[Value]:
        # A value begins at most ABOVE_REACH characters from where its match begins.
        first, last = max(start - low - ABOVE_REACH, 0), end - low + ABOVE_REACH
        found: list[Value] = []
        regions = self._regions
        for rule, candidates, zones in self._prefilter.candidates(part, labels, first, last, regions):
            values = scored_values(rule, part, self._floor, labels, candidates, zones, low)
            if (regional := rule.regional) is not None and regions is not None:
                known = regions.found
                values = [value for value in values if regional(part, value[0] - low, value[1] - low, known)]
            found += values
        return found


def _moved_search(folded: Folded, searches: Callable[[int, int], bool]) -> Callable[[int, int], bool]:
    """Returns the test of parts of a folded text, by the test of parts of its original."""
    return lambda low, high: searches(folded.original(low), folded.original(high))


def _moved(folded: Folded, values: Iterator[Value]) -> Iterator[Value]:
    """Yields values of a folded text with their positions in the original."""
    return ((folded.original(start), folded.original(end), entity, score) for start, end, entity, score in values)


@functools.lru_cache(maxsize=4)
def _compiled(rules: tuple[Rule, ...], floor: float) -> tuple[Prefilter, WholeCells]:
    """Compiles rules; cached, because most policies that a process sweeps by are equal."""
    return Prefilter(rules, floor), WholeCells(rules, floor)


def is_known_label(text: str) -> bool:
    """Returns whether a text is a known name of a column or key."""
    return bool(label_entities(plain_label(text)))


def find_mentions(
    ask: Ask, text: str, categories: Collection[str], floor: float, offset: int, columns: Sequence[Column] = ()
) -> list[Value]:
    """Calls a model; returns the position of each mention of at least `floor`, or all positions of its quote as words.

    `offset` is added to the positions.
    """
    matches = []
    for mention in ask(text, categories, columns):
        quote = mention.quote.strip()
        if mention.type not in categories or mention.score < floor or len(quote) < _SHORTEST_QUOTE:
            continue
        if is_known_label(quote):
            # A label occurs before values or above them, and is no value.
            continue
        if mention.start is not None:
            end = mention.start + len(mention.quote)
            matches.append((mention.start + offset, end + offset, mention.type, min(mention.score, 1.0)))
            continue
        places = re.finditer(rf"(?<!\w){re.escape(quote)}(?!\w)", text)
        matches += [
            (place.start() + offset, place.end() + offset, mention.type, min(mention.score, 1.0)) for place in places
        ]
    return matches
