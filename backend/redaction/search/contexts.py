"""Which places of a text stand beside context words: behind them on a line, or below a label that holds one."""

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from backend.redaction.rules.rule import CONTEXT_REACH, Zone
from backend.redaction.search.linear_search import Search, at_first, search_for
from backend.redaction.search.scan import scan

_OPTIONAL: Final = re.compile(r"(?<!\()\?")


class Labels(Protocol):
    """The labels of the pieces that a text joins by line breaks."""

    def at(self, place: int) -> str:
        """The plain label of the piece at a place, "" for none."""
        ...

    def apart(self, first: int, second: int) -> bool:
        """Whether two places are in different pieces."""
        ...


class Contexts:
    """The zones of places beside each set of words in one text; `searches` are for the words, in RE2.

    Words that begin outside of `where` are left out.
    """

    def __init__(self, plain: str, raw: bytes, searches: Mapping[str, Search], where: Zone, *, any_word: bool) -> None:
        self._plain = plain
        self._raw = raw
        self._searches = searches
        self._where = where
        self._any_word = any_word
        self._found: dict[str, Sequence[Zone]] = {}

    def zones(self, words: str) -> Sequence[Zone]:
        """The places behind one of the words on its line, at most CONTEXT_REACH from where it begins.

        In order and apart.
        """
        if not self._any_word:
            return ()
        if (zones := self._found.get(words)) is None:
            found = word_spans(words, self._searches[words], self._plain, self._raw, self._where)
            zones = self._found[words] = _behind(self._plain, found)
        return zones


def word_spans(words: str, search: Search, plain: str, raw: bytes, where: Zone) -> list[Zone]:
    """Where the words stand in a text, in order."""
    return [found.span(1) for found in scan(search, _pattern(words), plain, raw, [where], CONTEXT_REACH)]


def _behind(text: str, words: Iterable[Zone]) -> Sequence[Zone]:
    zones: list[Zone] = []
    low = high = line = -1
    for start, end in words:
        if line < start and (line := text.find("\n", start)) < 0:
            line = len(text)
        first, last = end + 1, min(start + CONTEXT_REACH, line) + 1
        if first > high:
            if high > low:
                zones.append((low, high))
            low, high = first, last
        elif last > high:
            high = last
    if high > low:
        zones.append((low, high))
    return zones


def joined(first: Sequence[Zone], second: Sequence[Zone]) -> Sequence[Zone]:
    """The zones of both, in order and apart."""
    if not first or not second:
        return first or second
    zones: list[Zone] = []
    for low, high in sorted([*first, *second]):
        if zones and low <= zones[-1][1]:
            zones[-1] = zones[-1][0], max(zones[-1][1], high)
        else:
            zones.append((low, high))
    return zones


def is_beside(words: str, text: str, start: int, labels: Labels | None) -> bool:
    """Whether a place is beside one of the words, by reading what stands before it alone."""
    if labels is not None and tells(words, labels.at(start)):
        return True
    low = max(text.rfind("\n", 0, start) + 1, start - CONTEXT_REACH)
    return _search_whole(words)((text[low - 1 : start] if low else "\n" + text[:start]).encode("latin-1"), 0) >= 0


@functools.lru_cache(maxsize=4096)
def tells(words: str, label: str) -> bool:
    """Whether a column's or key's plain name holds one of a rule's context words."""
    return _search_whole(words)(b"\n" + label.encode("latin-1", "replace"), 0) >= 0


@functools.cache
def search_words(words: str) -> Search:
    """A search for a rule's context words behind another character, in any case and in the plural."""
    return search_for(rf"(?i)[^A-Za-z](?:{words})s?[^A-Za-z]")


@functools.cache
def _search_whole(words: str) -> Search:
    return search_for(rf"(?i)[^A-Za-z](?:{words})s?(?:[^A-Za-z]|$)")


@functools.cache
def _pattern(words: str) -> re.Pattern[str]:
    """What `search_words` finds, as little of it as is a word of its own, without the characters around it."""
    shortest = _OPTIONAL.sub("??", f"(?:{words})s?")
    letters = {word[0] for word in words.split("|")}
    first = f"[{''.join(sorted(letters | {letter.upper() for letter in letters}))}]"
    return re.compile(at_first(first, f"(?<![A-Za-z])(?=((?i:{shortest}))[^A-Za-z])"), re.ASCII)
