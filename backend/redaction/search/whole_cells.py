"""Finds the cells that are one value from end to end, as most cells of a table of people are, without a search.

A value that fills its cell contains every other value in it, so only the rules whose pattern fits the whole cell need
to be asked.
"""

import functools
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from backend.redaction.rules.rule import Rule
from backend.redaction.search.characters import normalised
from backend.redaction.search.contexts import search_words
from backend.redaction.search.linear_search import matching_patterns
from backend.redaction.search.matching import compiled

LONGEST: Final = 64
"""Characters of the longest cell that is looked at; a longer one is text."""
# No rule finds a value in such a cell unless its column names one.
_NO_VALUE: Final = re.compile(r"[0-9]{0,6}|-?[0-9]{1,3}\.[0-9]{1,2}", re.ASCII)
_LOCAL: Final = "[0-9A-Za-z_.%+'&~\x80-\xff-]{1,64}"
# RE2 knows no lookaround, and refuses repeats of more than 1,000.
_AROUND: Final = re.compile(r"\(\?(?:[=!>]|<[=!])")
_LONG_REPEAT: Final = re.compile(r"\{0,[0-9]{4}\}")

Found = tuple[float, str]
"""Score and entity type of a value."""


class WholeCells:
    """Patterns of the rules that may fill a cell; the scores depend on the context words in a cell's label."""

    def __init__(self, rules: Collection[Rule], floor: float) -> None:
        # The value of a pattern with a group has something before it.
        rules = [rule for rule in rules if not rule.has_group and rule.regional is None]
        self._fitting = matching_patterns([_whole(rule) for rule in rules])
        self._rules = [
            (
                (rule.score, rule.entity) if rule.score >= floor else None,
                (rule.best_score, rule.entity),
                rule.context,
                functools.partial(_fills, rule, compiled(rule)),
            )
            for rule in rules
        ]
        self._words = sorted({rule.context for rule in rules if rule.context})

    def words_in(self, labels: Iterable[str]) -> Mapping[str, frozenset[str]]:
        """Returns for each label that holds context words the sets of words that it is beside."""
        any_word = search_words("|".join(self._words)) if self._words else None
        found = {}
        for label in labels:
            raw = f"\n{label}\n".encode("latin-1", "replace")
            if label and any_word is not None and any_word(raw, 0) >= 0:
                found[label] = frozenset(words for words in self._words if search_words(words)(raw, 0) >= 0)
        return found

    def value(self, cell: str, words: Collection[str]) -> Found | None:
        """Returns the best value that is the whole cell; `words` are sets of context words that its label holds."""
        if cell.isascii():
            plain, raw = cell, cell.encode("ascii")
        else:
            plain = normalised(cell)
            raw = plain.encode("latin-1")
        best: Found | None = None
        for index in self._fitting(raw):
            alone, beside, context, fills = self._rules[index]
            found = beside if words and context in words else alone
            if found is not None and (best is None or found > best) and fills(plain):
                best = found
        return best


def is_quiet(cell: str) -> bool:
    """Returns whether a cell is a short number, in which no rule finds a value unless its label has context words."""
    return _NO_VALUE.fullmatch(cell) is not None


def _whole(rule: Rule) -> str:
    """Returns a pattern for RE2 that is found in every cell that a value of the rule fills."""
    if _AROUND.search(rule.pattern) is not None:
        return f"(?:{rule.opening}).*"
    pattern = _LONG_REPEAT.sub("*", rule.pattern)
    if rule.tail:
        return f"(?:{pattern}){rule.tail}*"
    return f"{_LOCAL}(?:{pattern})" if rule.widen is not None else pattern


def _fills(rule: Rule, pattern: re.Pattern[str], plain: str) -> bool:
    """Returns whether the value that a rule finds at the beginning of a text is all of it."""
    size = len(plain)
    if rule.widen is not None:
        found = pattern.search(plain)
        return found is not None and found.end(1) == size and rule.widen(plain, found.start(1)) == 0
    found = pattern.match(plain)
    if found is None or (found.end(1) != size and not rule.tail):
        return False
    if rule.trim is not None:
        return rule.trim(plain) == size
    return rule.check is None or rule.check(plain)
