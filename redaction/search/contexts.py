"""Finds the zones of a text behind context words: on their line, or on the line below a short line."""

import functools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from redaction.rules.rule import CONTEXT_REACH, Zone
from redaction.search.linear_search import Search, at_first_characters, scan, search_for

_LONGEST_ABOVE: Final = 120
"""Characters of the longest line whose last words count below; less than ABOVE_REACH, so that windows hold it."""
_DIGIT: Final = re.compile("[0-9]")
_OPTIONAL: Final = re.compile(r"(?<!\()\?")


class Contexts:
    """Zones beside each set of context words in one text, found when first needed.

    `searches` find the words by RE2; words that begin outside of `where` are left out. `words` are the sets of
    which the text may hold a word. With `next_line` the last words of a line count for the line below, such as a
    question in a chat, or the name of a field above its value.
    """

    def __init__(
        self,
        normalised_text: str,
        raw: bytes,
        searches: Mapping[str, Search],
        where: Zone,
        words: Collection[str],
        *,
        next_line: bool = False,
    ) -> None:
        self._normalised_text = normalised_text
        self._raw = raw
        self._searches = searches
        self._where = where
        self._words = words
        self._next_line = next_line
        self._found: dict[str, Sequence[Zone]] = {}

    def zones(self, words: str) -> Sequence[Zone]:
        """Returns the zones behind one of the words on its line, at most CONTEXT_REACH from the word's beginning.

        The first CONTEXT_REACH characters of the line below are a zone too, if at most as many characters and no digit
        are between the word and the end of its line. The zones are in order and disjoint.
        """
        if words not in self._words:
            return ()
        if (zones := self._found.get(words)) is None:
            found = word_spans(words, self._searches[words], self._normalised_text, self._raw, self._where)
            zones = self._found[words] = _behind(self._normalised_text, found, self._next_line)
        return zones


def word_spans(words: str, search: Search, normalised_text: str, raw: bytes, where: Zone) -> list[Zone]:
    """Returns the spans of the words in a text, in order."""
    if search(raw, where[0]) < 0:
        # The search comes first, so that patterns of words without occurrences are never compiled.
        return []
    return [found.span(1) for found in scan(search, _pattern(words), normalised_text, raw, [where], CONTEXT_REACH)]


def _behind(text: str, words: Iterable[Zone], next_line: bool) -> Sequence[Zone]:
    zones: list[Zone] = []
    low = high = line = -1
    for start, end in words:
        if line < start and (line := text.find("\n", start)) < 0:
            line = len(text)
        first, last = end + 1, min(start + CONTEXT_REACH, line) + 1
        if next_line and line - start <= CONTEXT_REACH:
            last = max(last, _end_below(text, start, line))
        if first > high:
            if high > low:
                zones.append((low, high))
            low, high = first, last
        elif last > high:
            high = last
    if high > low:
        zones.append((low, high))
    return zones


def _end_below(text: str, start: int, line: int) -> int:
    """Returns the end of the zone on the line after `line`; 0 if the word at `start` has no zone there."""
    if text.rfind("\n", max(line - _LONGEST_ABOVE - 1, 0), line) < 0 and line > _LONGEST_ABOVE:
        return 0
    if _DIGIT.search(text, start, line) is not None:
        return 0
    below = text.find("\n", line + 1, line + 1 + CONTEXT_REACH)
    return (line + 1 + CONTEXT_REACH if below < 0 else below) + 1


def joined(first: Sequence[Zone], second: Sequence[Zone]) -> Sequence[Zone]:
    """Returns the union of two sequences of zones, in order and disjoint."""
    if not first or not second:
        return first or second
    zones: list[Zone] = []
    for low, high in sorted([*first, *second]):
        if zones and low <= zones[-1][1]:
            zones[-1] = zones[-1][0], max(zones[-1][1], high)
        else:
            zones.append((low, high))
    return zones


@functools.cache
def search_words(words: str) -> Search:
    """Compiles a search for a rule's context words as whole words, in any case and in the plural."""
    return search_for(words_pattern(words))


def words_pattern(words: str) -> str:
    """Returns the regex that `search_words` compiles."""
    return rf"(?i)[^A-Za-z](?:{words})s?[^A-Za-z]"


@functools.cache
def _pattern(words: str) -> re.Pattern[str]:
    """Compiles a pattern for the shortest whole word that `search_words` finds, without the characters around it."""
    shortest = _OPTIONAL.sub("??", f"(?:{words})s?")
    letters = {word[0] for word in words.split("|")}
    first = f"[{''.join(sorted(letters | {letter.upper() for letter in letters}))}]"
    return re.compile(at_first_characters(first, f"(?<![A-Za-z])(?=((?i:{shortest}))[^A-Za-z])"), re.ASCII)
