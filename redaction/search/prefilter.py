"""Pre-filter of the search: finds the matches of each rule's pattern by RE2, in time linear in the text."""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from redaction.rules.rule import ABOVE_REACH, Rule, Zone
from redaction.search.contexts import Contexts, joined, search_words, words_pattern
from redaction.search.document_regions import DocumentRegions
from redaction.search.linear_search import patterns_in, scan, search_for
from redaction.search.matching import compiled
from redaction.search.piece_labels import PartLabels

_LATIN_1: Final = "latin-1"
_any_digit: Final = search_for("[0-9]")
# If more than 1 of this many patterns is found, separate searches cost less than one search for all.
_DENSE: Final = 2
# Number of texts after a dense one for which all patterns are searched.
_AFTER_DENSE: Final = 7
# Group size of patterns with many words; the states of a larger group do not fit a cache.
_WORDY_GROUP_SIZE: Final = 6


class _Gate:
    """Gate that finds which patterns a text holds, by one pass for each group; off while texts hold most patterns."""

    def __init__(self, patterns: Sequence[str], group_size: int | None = None) -> None:
        size = group_size or max(len(patterns), 1)
        lows = range(0, len(patterns), size)
        self._parts = [(low, patterns_in(patterns[low : low + size], len(lows))) for low in lows]
        self._every = frozenset(range(len(patterns)))
        # Shared by threads without a lock: a lost count costs only time.
        self._skipped = 0

    def open_for(self, raw: bytes) -> Collection[int]:
        """Returns the indices of at least all patterns that the text holds."""
        if self._skipped > 0:
            self._skipped -= 1
            return self._every
        found = [low + index for low, patterns in self._parts for index in patterns(raw)]
        if len(found) * _DENSE > len(self._every):
            self._skipped = _AFTER_DENSE
        return found


class Prefilter:
    """Compiled openings of rules; a rule that reaches `floor` only by context is searched only beside context words."""

    def __init__(self, rules: Collection[Rule], floor: float) -> None:
        self._floor = floor
        self._searches = [(rule, search_for(rule.begins), compiled(rule), 0 if rule.before else 1) for rule in rules]
        places = range(len(self._searches))
        self._lifted = [place for place in places if self._searches[place][0].score < floor]
        alone = [place for place in places if self._searches[place][0].score >= floor]
        self._numeric = [place for place in alone if self._searches[place][0].numeric]
        self._others = [place for place in alone if not self._searches[place][0].numeric]
        self._numeric_gate = _Gate([self._searches[place][0].begins for place in self._numeric])
        self._others_gate = _Gate([self._searches[place][0].begins for place in self._others], _WORDY_GROUP_SIZE)
        words = dict.fromkeys(rule.context for rule in rules if rule.context)
        self._contexts = {one: search_words(one) for one in words}
        self._words = list(words)
        self._words_gate = _Gate([words_pattern(one) for one in words])
        self._any_words = "|".join(words)

    def candidates(
        self,
        normalised_text: str,
        labels: PartLabels | None,
        first: int,
        last: int,
        regions: DocumentRegions | None = None,
    ) -> Iterator[tuple[Rule, Sequence[re.Match[str]], Sequence[Zone]]]:
        """Yields each rule that matches in a normalised text from `first` up to `last`, with its matches and zones.

        The zones are the ranges beside the rule's context words. `labels` are of the text's joined pieces. Rules of
        national forms are left out unless `regions` are given.
        """
        # One byte per character, with a line break at either end.
        raw = b"\n" + normalised_text.encode(_LATIN_1) + b"\n"
        open_places = [self._others[index] for index in self._others_gate.open_for(raw)]
        words: Collection[str] = ()
        if digits := _any_digit(raw, 0) >= 0:  # no other rule has context words
            open_places += [self._numeric[index] for index in self._numeric_gate.open_for(raw)]
            words = {self._words[index] for index in self._words_gate.open_for(raw)} if self._words else ()
        where_words = max(first - ABOVE_REACH, 0), last
        contexts = Contexts(normalised_text, raw, self._contexts, where_words, words, next_line=labels is None)
        everywhere: Sequence[Zone] = [(first, last)]
        zones: dict[str, Sequence[Zone]] = {"": ()}
        for place in (*open_places, *(self._lifted if digits else ())):
            rule, search, pattern, shift = self._searches[place]
            if rule.regional is not None and not (regions is not None and regions.found):
                continue
            context = rule.context
            if rule.score < self._floor:
                if labels is None and context not in words:
                    continue
                if context not in zones:
                    zones[context] = _context_zones(contexts, labels, context, self._any_words)
                where = zones[context]
            else:
                where = everywhere
            # The line break before the text shifts positions by one, the character before a match shifts them back.
            if where and (found := scan(search, pattern, normalised_text, raw, where, rule.longest, shift)):
                if context not in zones:
                    zones[context] = _context_zones(contexts, labels, context, self._any_words)
                yield rule, found, zones[context]


def _context_zones(contexts: Contexts, labels: PartLabels | None, words: str, any_words: str) -> Sequence[Zone]:
    zones = contexts.zones(words)
    return zones if labels is None else joined(zones, labels.zones(words, any_words))
