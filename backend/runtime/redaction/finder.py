"""Finds values in texts of any length: window by window, and only with the rules that a window can hold."""

import bisect
from collections.abc import Collection, Iterator
from typing import Final

from backend.runtime.redaction.labelled import Labelled, Part
from backend.runtime.redaction.mentions import Ask, find_mentions
from backend.runtime.redaction.openings import Prefilter
from backend.runtime.redaction.rule import Match, find, normalised
from backend.runtime.redaction.rules_everywhere import RULES as EVERYWHERE
from backend.runtime.redaction.rules_national import RULES as NATIONAL
from backend.runtime.redaction.rules_persons import RULES as PERSONS
from backend.runtime.redaction.spans import resolved, windows

RULES: Final = (*EVERYWHERE, *NATIONAL, *PERSONS)


class Finder:
    """The rules for some entity types, from a least score on, behind their pre-filter; and a model, where one is."""

    def __init__(self, categories: Collection[str], floor: float, ask: Ask | None = None) -> None:
        self.rules = tuple(rule for rule in RULES if rule.entity in categories and rule.best_score >= floor)
        self._floor = floor
        self._ask = ask
        self._categories = sorted(categories)
        self._prefilter = Prefilter(self.rules, floor)

    def find(self, text: str, labelled: Labelled | None = None) -> list[Match]:
        """The values in a text, in order, none overlapping."""
        return resolved(self.find_each(text, labelled))

    def find_all(self, text: str, *, by_rules_only: bool = False) -> list[Match]:
        """Every match in a text, overlapping ones too, each decided by at most REACH characters to either side."""
        return list(self.find_each(text, by_rules_only=by_rules_only))

    def find_each(self, text: str, labelled: Labelled | None = None, *, by_rules_only: bool = False) -> Iterator[Match]:
        """The matches of `find_all` one by one, in the order of their places."""
        ask = None if by_rules_only else self._ask
        plain = normalised(text)
        for start, end, low, high in windows(plain):
            labels = None if labelled is None else Part(labelled, low, high - low)
            found = self._by_rules(plain[low:high], labels, low)
            if ask is not None:
                found += find_mentions(ask, text[low:high], self._categories, self._floor, low)
            found.sort()
            yield from found[bisect.bisect_left(found, (start,)) : bisect.bisect_left(found, (end,))]

    def find_unfiltered(self, text: str, labelled: Labelled | None = None) -> list[Match]:
        """What `find` finds, slowly: every rule over the whole text at once, without windows or pre-filter."""
        plain = normalised(text)
        return resolved([match for rule in self.rules for match in find(rule, plain, self._floor, labelled)])

    def _by_rules(self, part: str, labels: Part | None, low: int) -> list[Match]:
        openings, contexts = self._prefilter.openings(part, labels)
        return [
            match
            for rule, starts in openings.items()
            for match in find(rule, part, self._floor, labels, starts, contexts, low)
        ]
