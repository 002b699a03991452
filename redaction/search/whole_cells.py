"""Finds cells that are one value as a whole, as most cells of a table of people, without a search.

A value that fills its cell contains every other value in it, so that only rules whose pattern matches the whole cell
need to be tried.
"""

import functools
import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from redaction.rules.rule import Rule
from redaction.search.contexts import search_words
from redaction.search.linear_search import matching_patterns, patterns_in
from redaction.search.matching import compiled

LONGEST: Final = 64
"""Characters of the longest cell that is examined here; a longer cell is searched as text."""
is_short_number: Final = re.compile(r"[0-9]{0,6}|-?[0-9]{1,3}\.[0-9]{1,2}", re.ASCII).fullmatch
"""Matches a cell with a short number, in which no rule finds a value unless its label has context words."""
LONGEST_SHORT_NUMBER: Final = 7
"""Characters of the longest cell that `is_short_number` matches."""
_LOCAL: Final = "[0-9A-Za-z_.%+'&~\x80-\xff-]{1,64}"
# RE2 has no lookaround, and refuses repeats of more than 1,000.
_AROUND: Final = re.compile(r"\(\?(?:[=!>]|<[=!])")
_LONG_REPEAT: Final = re.compile(r"\{0,[0-9]{4}\}")

Found = tuple[float, str]
"""Score and entity type of a value."""
_NONE: Final[Found] = (-1.0, "")
# Fewer cells are tried one by one, as are cells of a column in which more rules than these match.
_FEW_CELLS: Final = 8
_FEW_RULES: Final = 3


class WholeCells:
    """Matcher of whole cells by the rules that may fill a cell; scores depend on context words in the label."""

    def __init__(self, rules: Collection[Rule], floor: float) -> None:
        # In a pattern with a group, other text precedes the value.
        rules = [rule for rule in rules if not rule.has_group and rule.regional is None]
        self._patterns = [_whole(rule) for rule in rules]
        self._fitting = matching_patterns(self._patterns)
        self._rules = [
            (
                (rule.score, rule.entity) if rule.score >= floor else None,
                (rule.best_score, rule.entity),
                rule.context,
                _fills(rule),
            )
            for rule in rules
        ]
        self._words = sorted({rule.context for rule in rules if rule.context})

    @functools.cached_property
    def _column_matcher(self) -> Callable[[bytes], Collection[int]]:
        """Function that returns at least the patterns that match a whole line of a text, by one pass."""
        return patterns_in([f"\n(?:{pattern})\n" for pattern in self._patterns])

    def words_in(self, labels: Iterable[str]) -> Mapping[str, frozenset[str]]:
        """Returns by label the sets of context words with a word in the label."""
        any_word = search_words("|".join(self._words)) if self._words else None
        found = {}
        for label in labels:
            raw = f"\n{label}\n".encode("latin-1", "replace")
            if label and any_word is not None and any_word(raw, 0) >= 0:
                found[label] = frozenset(words for words in self._words if search_words(words)(raw, 0) >= 0)
        return found

    def values(
        self, cells: Sequence[str], words: Collection[str], given: Sequence[Found | None]
    ) -> Sequence[Found | None]:
        """Returns for each cell the best value that is the whole cell, unless its value in `given` is better.

        The cells have one label, which holds context words of the sets `words`. Each is one normalised line of at most
        LONGEST characters.
        """
        if len(cells) < _FEW_CELLS:
            return [self._best(cell, words, known) for cell, known in zip(cells, given, strict=True)]
        column = "\n".join(["", *cells, ""]).encode("latin-1")
        scores = {index: self._score(index, words) for index in self._column_matcher(column)}
        least = _NONE if None in given else min(filter(None, given), default=_NONE)
        ranked = sorted(
            ((score, self._rules[index][-1]) for index, score in scores.items() if score is not None and score > least),
            key=operator.itemgetter(0),
            reverse=True,
        )
        if not ranked:
            return given
        if len(ranked) > _FEW_RULES:
            return [self._best(cell, words, known) for cell, known in zip(cells, given, strict=True)]
        return [_first(ranked, cell, known) for cell, known in zip(cells, given, strict=True)]

    def _score(self, index: int, words: Collection[str]) -> Found | None:
        alone, beside, context, _ = self._rules[index]
        return beside if words and context in words else alone

    def _best(self, cell: str, words: Collection[str], best: Found | None) -> Found | None:
        for index in self._fitting(cell.encode("latin-1")):
            found = self._score(index, words)
            if found is not None and (best is None or found > best) and self._rules[index][-1](cell):
                best = found
        return best


def _first(ranked: Sequence[tuple[Found, Callable[[str], bool]]], cell: str, known: Found | None) -> Found | None:
    """Returns the score of the first rule that a cell is a value of, if better than `known`."""
    for found, fills in ranked:
        if known is not None and found <= known:
            break
        if fills(cell):
            return found
    return known


def _whole(rule: Rule) -> str:
    """Returns a pattern for RE2 that matches in every cell filled by a value of the rule."""
    if _AROUND.search(rule.pattern) is not None:
        return f"(?:{rule.opening}).*"
    pattern = _LONG_REPEAT.sub("*", rule.pattern)
    if rule.tail:
        return f"(?:{pattern}){rule.tail}*"
    return f"{_LOCAL}(?:{pattern})" if rule.widen is not None else pattern


def _fills(rule: Rule) -> Callable[[str], bool]:
    """Returns the test whether a rule's value at the beginning of a text is the whole text."""
    pattern = compiled(rule)
    match, check, trim, widen, refuted = pattern.match, rule.check, rule.trim, rule.widen, rule.refuted

    def widened(cell: str) -> bool:
        assert widen is not None
        found = pattern.search(cell)
        if found is None or found.end(1) < len(cell) or (refuted is not None and refuted(cell, found.start(1))):
            return False
        return widen(cell, found.start(1)) == 0

    def trimmed(cell: str) -> bool:
        assert trim is not None
        found = match(cell)
        return found is not None and (bool(rule.tail) or found.end(1) == len(cell)) and trim(cell) == len(cell)

    def matched(cell: str) -> bool:
        found = match(cell)
        return found is not None and found.end(1) == len(cell) and (check is None or check(cell))

    if widen is not None:
        return widened
    return matched if trim is None else trimmed
