"""The pre-filter: where in a text the matches of each rule can begin, found by RE2 in time linear in the text."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from backend.runtime.redaction.labelled import Part
from backend.runtime.redaction.linear_search import Search, search_for
from backend.runtime.redaction.rule import CONTEXT_REACH, REACH, Contexts, Rule, Zone, compiled

Openings = Mapping[Rule, Sequence[int]]

# Where the last few places are closer than this on average, `re` reads a stretch of the text sooner than a call of RE2
# finds the next of them.
_FEW: Final = 8
_DENSE: Final = 64
_STRETCH: Final = 1_024


class Prefilter:
    """The openings of some rules, compiled; a rule that only its context lifts to `floor` is sought only there."""

    def __init__(self, rules: Collection[Rule], floor: float) -> None:
        self._begins = {rule: search_for(rule.begins) for rule in rules}
        self._everywhere = {rule: compiled(rule)[1] for rule in rules}
        self._lifted = {rule for rule in rules if rule.score < floor}
        self._contexts = {rule.context: search_for(f"(?i){rule.context}") for rule in rules if rule.context}
        self._sought = {rule.context for rule in self._lifted}
        self._any_words = "|".join(self._contexts)
        self._any_context = search_for(f"(?i){'|'.join(self._contexts)}")

    def openings(self, plain: str, labels: Part | None) -> tuple[Openings, Contexts]:
        """For a normalised text: the places, in order, where matches of a rule can begin; there are no others.

        And the contexts of its places. `labels` are of the pieces that the text joins.
        """
        # One byte a character, and a line break on either side to stand for the text's ends.
        raw = b"\n" + plain.encode("latin-1") + b"\n"
        beside = _Beside(raw, self._contexts, any_word=self._any_context(raw, 0) >= 0)
        everywhere = [(0, len(plain))]
        zones = {words: beside.zones(words) for words in self._sought}
        if labels is not None:
            zones = {words: sorted([*near, *labels.told(words, self._any_words)]) for words, near in zones.items()}
        found: dict[Rule, Sequence[int]] = {}
        for rule, search in self._begins.items():
            where = zones[rule.context] if rule in self._lifted else everywhere
            # The break before the text shifts places by one, and the character before a match shifts them back.
            if where and (
                places := _places(search, self._everywhere[rule], plain, raw, where, 0 if rule.before else 1)
            ):
                found[rule] = places
        return found, Contexts(plain, labels, beside.zones)


class _Beside:
    """The zones of one text in which a value can have a context word before it on its line, found when asked for."""

    def __init__(self, raw: bytes, searches: Mapping[str, Search], *, any_word: bool) -> None:
        self._raw = raw
        self._searches = searches
        self._any_word = any_word
        self._found: dict[str, Sequence[Zone]] = {}

    def zones(self, words: str) -> Sequence[Zone]:
        """The zones of some words, in order; they may be too wide, for where words are many few are sought."""
        if not self._any_word:
            return ()
        if (zones := self._found.get(words)) is None:
            search, raw = self._searches[words], self._raw
            wide: list[Zone] = []
            place, skipped = search(raw, 0), CONTEXT_REACH
            while place >= 0:
                if wide and place <= wide[-1][1]:
                    skipped = min(2 * skipped, _STRETCH)
                    wide[-1] = wide[-1][0], place + skipped + CONTEXT_REACH
                else:
                    skipped = CONTEXT_REACH
                    wide.append((place, place + skipped + CONTEXT_REACH))
                place = search(raw, place + skipped)
            zones = self._found[words] = wide
        return zones


def _places(
    search: Search, everywhere: re.Pattern[str], plain: str, raw: bytes, zones: Sequence[Zone], shift: int
) -> list[int]:
    """Where the pattern is found in the zones, which are in order, and may overlap."""
    places: list[int] = []
    place = -1
    for low, high in zones:
        if place < low + shift:
            place = search(raw, low + shift)
        while 0 <= place < high + shift:
            places.append(place - shift)
            if len(places) >= _FEW and places[-1] - places[-_FEW] < _FEW * _DENSE:
                until = min(places[-1] + _STRETCH, high)
                places += _places_by_re(everywhere, plain, places[-1] + 1, until)
                place = search(raw, until + shift)
            else:
                place = search(raw, place + 1)
        if place < 0:
            break
    return places


def _places_by_re(everywhere: re.Pattern[str], plain: str, start: int, end: int) -> Iterator[int]:
    for found in everywhere.finditer(plain, start, end + REACH):
        if (place := found.start()) >= end:
            return
        yield place
