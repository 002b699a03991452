"""Finds values in texts of any length: window by window, and only with the rules that a window can hold."""

import bisect
from collections.abc import Collection, Iterator
from typing import Final

from backend.redaction.formats.labelled import Labelled, Part
from backend.redaction.rules.everywhere import RULES as EVERYWHERE
from backend.redaction.rules.national import RULES as NATIONAL
from backend.redaction.rules.persons import RULES as PERSONS
from backend.redaction.rules.rule import ABOVE_REACH, Match, Value, normalised
from backend.redaction.search.matching import find
from backend.redaction.search.mentions import Ask, find_mentions
from backend.redaction.search.prefilter import Prefilter
from backend.redaction.search.spans import joined, resolved, windows

RULES: Final = (*EVERYWHERE, *NATIONAL, *PERSONS)


class Finder:
    """The rules for some entity types, from a least score on, behind their pre-filter; and a model, where one is."""

    def __init__(self, categories: Collection[str], floor: float, ask: Ask | None = None) -> None:
        self.rules = tuple(rule for rule in RULES if rule.entity in categories and rule.best_score >= floor)
        self._floor = floor
        self._ask = ask
        self._categories = sorted(categories)
        self._prefilter = Prefilter(self.rules, floor)

    @property
    def by_rules_only(self) -> bool:
        """Whether no model is asked."""
        return self._ask is None

    def find(self, text: str, labelled: Labelled | None = None) -> list[Match]:
        """The values in a text, in order, none overlapping."""
        return [Match(*value) for value in self.find_values(text, labelled)]

    def find_values(self, text: str, labelled: Labelled | None = None) -> list[Value]:
        """What `find` finds."""
        return joined(self.find_each(text, labelled))

    def find_all(self, text: str, *, by_rules_only: bool = False) -> list[Value]:
        """The matches in a text in order, overlapping ones too, each decided by REACH characters on either side.

        What another match of the same rule holds may be left out.
        """
        return list(self.find_each(text, by_rules_only=by_rules_only))

    def find_each(self, text: str, labelled: Labelled | None = None, *, by_rules_only: bool = False) -> Iterator[Value]:
        """The matches of `find_all` one by one."""
        ask = None if by_rules_only else self._ask
        plain = normalised(text)
        for start, end, low, high in windows(plain):
            labels = None if labelled is None else Part(labelled, low, high - low)
            found = self._by_rules(plain[low:high], labels, start, end, low)
            if ask is not None:
                found += find_mentions(ask, text[low:high], self._categories, self._floor, low)
            found.sort()
            yield from found[bisect.bisect_left(found, (start,)) : bisect.bisect_left(found, (end,))]

    def find_unfiltered(self, text: str, labelled: Labelled | None = None) -> list[Match]:
        """What `find` finds, slowly: every rule over the whole text at once, without windows or pre-filter."""
        plain = normalised(text)
        return resolved([match for rule in self.rules for match in find(rule, plain, self._floor, labelled)])

    def _by_rules(self, part: str, labels: Part | None, start: int, end: int, low: int) -> list[Value]:
        # A value begins at most so far from where its match does.
        first, last = max(start - low - ABOVE_REACH, 0), end - low + ABOVE_REACH
        return [
            value
            for rule, candidates, zones in self._prefilter.candidates(part, labels, first, last)
            for value in find(rule, part, self._floor, labels, candidates, zones, low)
        ]
