"""The pre-filter: where in a text the matches of each rule can begin, found by RE2 in time linear in the text."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import re2  # type: ignore[import-untyped]  # ships no types

from backend.runtime.redaction.labelled import Zone
from backend.runtime.redaction.rule import CONTEXT_REACH, Rule

Openings = Mapping[Rule, Sequence[int]]

_Search = Callable[[bytes, int], int]
_OPTIONS = re2.Options()
_OPTIONS.encoding = re2.Options.Encoding.LATIN1
_OPTIONS.log_errors = False


class Prefilter:
    """The openings of some rules, compiled; a rule that only its context lifts to `floor` is sought only there."""

    def __init__(self, rules: Collection[Rule], floor: float) -> None:
        self._begins = {rule: _search(rule.begins) for rule in rules}
        self._lifted = {rule for rule in rules if rule.score < floor}
        self._contexts = {rule.context: _search(f"(?i){rule.context}") for rule in self._lifted}
        self._any_context = _search(f"(?i){'|'.join(self._contexts)}")

    def openings(self, plain: str, told: Callable[[str], Sequence[Zone]]) -> Openings:
        """For a normalised text: the places, in order, where matches of a rule can begin; there are no others.

        `told` gives the zones of the text in which a column's or key's name holds one of some context words.
        """
        # One byte a character, and a line break on either side to stand for the text's ends.
        raw = b"\n" + plain.encode("latin-1") + b"\n"
        everywhere = [(0, len(plain))]
        zones = {words: told(words) for words in self._contexts}
        if self._any_context(raw, 0) >= 0:
            zones = {words: self._zones(raw, words, labelled) for words, labelled in zones.items()}
        found: dict[Rule, Sequence[int]] = {}
        for rule, search in self._begins.items():
            where = zones[rule.context] if rule in self._lifted else everywhere
            # The break before the text shifts places by one, and the character before a match shifts them back.
            if where and (places := _places(search, raw, where, 0 if rule.before else 1)):
                found[rule] = places
        return found

    def _zones(self, raw: bytes, words: str, told: Sequence[Zone]) -> Sequence[Zone]:
        """Those told, and where a value can have one of the words before it on its line."""
        search = self._contexts[words]
        zones = list(told)
        place = search(raw, 0)
        while place >= 0:
            zones.append((place, place + CONTEXT_REACH))
            place = search(raw, place + 1)
        return sorted(zones)


def _places(search: _Search, raw: bytes, zones: Sequence[Zone], shift: int) -> list[int]:
    """Where the pattern is found in the zones, which are in order, and may overlap."""
    places: list[int] = []
    place = -1
    for low, high in zones:
        if place < low + shift:
            place = search(raw, low + shift)
        while 0 <= place < high + shift:
            places.append(place - shift)
            place = search(raw, place + 1)
        if place < 0:
            break
    return places


def _search(pattern: str) -> _Search:
    """Where a pattern is first found from a place on; -1 for nowhere."""
    compiled = re2.compile(pattern.encode("latin-1"), _OPTIONS)
    # The wrapper's own search makes three objects to tell one number, in three times the time.
    match: Any = compiled._regexp.Match  # noqa: SLF001
    unanchored = re2._re2.RE2.Anchor.UNANCHORED  # noqa: SLF001

    def search(raw: bytes, place: int) -> int:
        return int(match(unanchored, raw, place, len(raw))[0][0])

    return search
