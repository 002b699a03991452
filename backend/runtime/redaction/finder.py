"""Finds values in texts of any length: window by window, and only with the rules that a window can hold."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from backend.runtime.redaction.labelled import Labelled, Part
from backend.runtime.redaction.model import Mention
from backend.runtime.redaction.openings import Prefilter
from backend.runtime.redaction.recognizers import MentionRecognizer, RuleRecognizer, Window, analyzer
from backend.runtime.redaction.rule import Match, Rule, find, normalised
from backend.runtime.redaction.rules_everywhere import RULES as EVERYWHERE
from backend.runtime.redaction.rules_national import RULES as NATIONAL
from backend.runtime.redaction.rules_persons import RULES as PERSONS
from backend.runtime.redaction.spans import resolved, windows

RULES: Final = (*EVERYWHERE, *NATIONAL, *PERSONS)

Ask = Callable[[str, Collection[str]], Sequence[Mention]]


class Finder:
    """The recognizers for some entity types, from a least score on, behind their pre-filter."""

    def __init__(self, categories: Collection[str], floor: float, ask: Ask | None = None) -> None:
        self.rules = tuple(rule for rule in RULES if rule.entity in categories and rule.best_score >= floor)
        self._floor = floor
        by_entity: dict[str, list[Rule]] = defaultdict(list)
        for rule in self.rules:
            by_entity[rule.entity].append(rule)
        recognizers = [RuleRecognizer(entity, rules, floor) for entity, rules in by_entity.items()]
        self._by_rules = analyzer(recognizers) if recognizers else None
        self._by_all = None if ask is None else analyzer([*recognizers, MentionRecognizer(categories, ask, floor)])
        self._everything = sorted(categories)
        self._prefilter = Prefilter(self.rules, floor)

    def find(self, text: str, labelled: Labelled | None = None) -> list[Match]:
        """The values in a text, in order, none overlapping."""
        return resolved(self.find_each(text, labelled))

    def find_all(self, text: str, *, by_rules_only: bool = False) -> list[Match]:
        """Every match in a text, overlapping ones too, each decided by at most REACH characters to either side."""
        return list(self.find_each(text, by_rules_only=by_rules_only))

    def find_each(self, text: str, labelled: Labelled | None = None, *, by_rules_only: bool = False) -> Iterator[Match]:
        """The matches of `find_all` one by one, in the order of their places."""
        by_all = None if by_rules_only else self._by_all
        analyze = by_all or self._by_rules
        if analyze is None:
            return
        plain = normalised(text)
        for start, end, low, high in windows(plain):
            labels = None if labelled is None else Part(labelled, low, high - low)
            window = self._window(plain[low:high], labels)
            entities = self._everything if by_all is not None else window.types
            if entities:
                found = analyze(text[low:high], entities, window)
                yield from sorted(
                    Match(low + one.start, low + one.end, one.entity_type, one.score)
                    for one in found
                    if start <= low + one.start < end
                )

    def find_unfiltered(self, text: str, labelled: Labelled | None = None) -> list[Match]:
        """What `find` finds, slowly: every rule over the whole text at once, without windows or pre-filter."""
        plain = normalised(text)
        return resolved([match for rule in self.rules for match in find(rule, plain, self._floor, labelled)])

    def _window(self, part: str, labels: Part | None) -> Window:
        told = labels.told if labels is not None else lambda _: ()
        return Window(part, self._prefilter.openings(part, told), labels)
