"""The pre-filter: where in a text the matches of each rule can begin, found by RE2 in time linear in the text."""

from collections.abc import Callable, Collection, Iterator
from typing import Any

import re2  # type: ignore[import-untyped]  # ships no types

from backend.runtime.redaction.rule import Rule

Openings = Callable[[Rule], Iterator[int]]


class Prefilter:
    """The openings of some rules, compiled; a rule that only its context lifts to `floor` is asked for that first."""

    def __init__(self, rules: Collection[Rule], floor: float) -> None:
        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1
        options.log_errors = False
        self._floor = floor
        self._begins = {rule: re2.compile(rule.begins.encode("latin-1"), options) for rule in rules}
        words = {rule.context for rule in rules if rule.score < floor}
        self._contexts = {one: re2.compile(f"(?i){one}".encode("latin-1"), options) for one in words}

    def openings(self, plain: str, told: Collection[str]) -> Openings:
        """For a normalised text: the places, in order, where matches of a rule can begin; there are no others.

        `told` are the contexts that a column or key of the text gives.
        """
        # One byte a character, and a line break on either side to stand for the text's ends.
        raw = b"\n" + plain.encode("latin-1") + b"\n"
        first: dict[Rule, int] = {}
        contexts: dict[str, bool] = dict.fromkeys(told, True)

        def in_context(words: str) -> bool:
            if (known := contexts.get(words)) is None:
                known = contexts[words] = self._contexts[words].search(raw) is not None
            return known

        def openings(rule: Rule) -> Iterator[int]:
            begins = self._begins[rule]
            if (place := first.get(rule)) is None:
                possible = rule.score >= self._floor or in_context(rule.context)
                place = first[rule] = _next(begins, raw, 0) if possible else -1
            # The break before the text shifts places by one, and the character before a match shifts them back.
            shift = 0 if rule.before else 1
            while place >= 0:
                yield place - shift
                place = _next(begins, raw, place + 1)

        return openings


def _next(pattern: Any, raw: bytes, place: int) -> int:
    found = pattern.search(raw, place)
    return -1 if found is None else int(found.start())
