"""Finds values in texts of any length: window by window, and only with the rules that a window can hold."""

import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from backend.runtime.redaction.model import Mention
from backend.runtime.redaction.openings import Prefilter
from backend.runtime.redaction.recognizers import MentionRecognizer, RuleRecognizer, Window, analyzer
from backend.runtime.redaction.rule import Match, Rule, find, in_context, normalised
from backend.runtime.redaction.rules_everywhere import RULES as EVERYWHERE
from backend.runtime.redaction.rules_national import RULES as NATIONAL
from backend.runtime.redaction.spans import resolved, windows

RULES: Final = (*EVERYWHERE, *NATIONAL)

Ask = Callable[[str, Collection[str]], Sequence[Mention]]
LabelAt = Callable[[int], str]


class Finder:
    """The recognizers for some entity types, from a least score on, behind their pre-filter."""

    def __init__(self, categories: Collection[str], floor: float, ask: Ask | None = None) -> None:
        self.rules = tuple(rule for rule in RULES if rule.entity in categories and rule.best_score >= floor)
        self._floor = floor
        by_entity = {
            entity: tuple(rules) for entity, rules in itertools.groupby(sorted(self.rules, key=_entity), key=_entity)
        }
        recognizers = [RuleRecognizer(entity, rules, floor) for entity, rules in by_entity.items()]
        self._by_entity = by_entity
        self._by_rules = analyzer(recognizers) if recognizers else None
        self._by_all = None if ask is None else analyzer([*recognizers, MentionRecognizer(categories, ask, floor)])
        self._everything = sorted(categories)
        self._prefilter = Prefilter(self.rules, floor)

    def find(self, text: str, label_at: LabelAt | None = None, labels: Iterable[str] = ()) -> list[Match]:
        """The values in a text, in order, none overlapping; `labels` are all that `label_at` can give."""
        return resolved(self.find_all(text, label_at, labels))

    def find_all(
        self, text: str, label_at: LabelAt | None = None, labels: Iterable[str] = (), *, by_rules_only: bool = False
    ) -> list[Match]:
        """Every match in a text, overlapping ones too, each decided by at most REACH characters to either side."""
        by_all = None if by_rules_only else self._by_all
        analyze = by_all or self._by_rules
        if analyze is None:
            return []
        plain = normalised(text)
        told = self._told_by(labels)
        matches: list[Match] = []
        for start, end, low, high in windows(plain):
            part = plain[low:high]
            openings = self._prefilter.openings(part, told)
            entities = [
                entity
                for entity, rules in self._by_entity.items()
                if any(True for rule in rules for _ in openings(rule))
            ]
            if by_all is not None:
                entities = self._everything
            if entities:
                window = Window(part, openings, None if label_at is None else _moved(label_at, low))
                found = analyze(text[low:high], entities, window)
                matches += [
                    Match(low + one.start, low + one.end, one.entity, one.score)
                    for one in found
                    if start <= low + one.start < end
                ]
        return matches

    def find_unfiltered(self, text: str, label_at: LabelAt | None = None) -> list[Match]:
        """What `find` finds, slowly: every rule over the whole text at once, without windows or pre-filter."""
        plain = normalised(text)
        return resolved([match for rule in self.rules for match in find(rule, plain, self._floor, label_at)])

    def _told_by(self, labels: Iterable[str]) -> frozenset[str]:
        words = {rule.context for rule in self.rules if rule.context}
        return frozenset(one for label in set(labels) for one in words if in_context(one, "", 0, lambda _: label))  # noqa: B023


def _entity(rule: Rule) -> str:
    return rule.entity


def _moved(label_at: LabelAt, low: int) -> LabelAt:
    return lambda place: label_at(low + place)
