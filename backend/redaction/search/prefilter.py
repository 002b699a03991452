"""Pre-filter: finds by RE2, in time linear in the text, where the pattern of each rule matches."""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from backend.redaction.rules.rule import CONTEXT_REACH, Rule, Zone
from backend.redaction.search.contexts import Contexts, joined, search_words
from backend.redaction.search.linear_search import search_for
from backend.redaction.search.matching import compiled
from backend.redaction.search.piece_labels import PartLabels
from backend.redaction.search.scan import scan

_LATIN_1: Final = "latin-1"
_any_digit: Final = search_for("[0-9]")


class Prefilter:
    """Compiled openings of some rules; a rule that reaches `floor` by its context alone is searched only beside it."""

    def __init__(self, rules: Collection[Rule], floor: float) -> None:
        self._searches = [
            (rule, search_for(rule.begins), compiled(rule), 0 if rule.before else 1, rule.score < floor)
            for rule in rules
        ]
        words = dict.fromkeys(rule.context for rule in rules if rule.context)
        self._contexts = {one: search_words(one) for one in words}
        self._any_words = "|".join(words)
        self._any_context = search_words(self._any_words)

    def candidates(
        self, plain: str, labels: PartLabels | None, first: int, last: int
    ) -> Iterator[tuple[Rule, Sequence[re.Match[str]], Sequence[Zone]]]:
        """Yields each rule that matches in a normalised text from `first` up to `last`, with its matches and zones.

        The zones are the places beside the rule's context words. `labels` are of the pieces that the text joins.
        """
        # One byte per character, and a line break on either side in place of the text's ends.
        raw = b"\n" + plain.encode(_LATIN_1) + b"\n"
        near = max(first - CONTEXT_REACH, 0), last
        contexts = Contexts(plain, raw, self._contexts, near, any_word=self._any_context(raw, 0) >= 0)
        everywhere: Sequence[Zone] = [(first, last)]
        zones: dict[str, Sequence[Zone]] = {"": ()}
        any_digit = _any_digit(raw, 0) >= 0
        for rule, search, pattern, shift, lifted in self._searches:
            if rule.numeric and not any_digit:
                continue
            words = rule.context
            if lifted:
                if words not in zones:
                    zones[words] = _beside(contexts, labels, words, self._any_words)
                where = zones[words]
            else:
                where = everywhere
            # The line break before the text shifts places by one, the character before a match shifts them back.
            if where and (found := scan(search, pattern, plain, raw, where, rule.longest, shift)):
                if words not in zones:
                    zones[words] = _beside(contexts, labels, words, self._any_words)
                yield rule, found, zones[words]


def _beside(contexts: Contexts, labels: PartLabels | None, words: str, any_words: str) -> Sequence[Zone]:
    zones = contexts.zones(words)
    return zones if labels is None else joined(zones, labels.zones(words, any_words))
