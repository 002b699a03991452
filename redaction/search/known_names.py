"""Finds further occurrences of people's names known from a document, whole or by one part."""

import re
from collections.abc import Collection, Iterable
from typing import Final

from redaction.rules.persons import may_be_person
from redaction.rules.rule import Value
from redaction.rules.tables import shared
from redaction.rules.words import words

# A name with a lower score is too often wrong to be looked for everywhere.
_LEAST_SCORE: Final = 0.8
# Most names learned; in a document with more, such as a table of customers, the rest are found by rules only.
MOST_NAMES: Final = 500
# Most names whose parts are looked for, because with more names some part is likely an ordinary word.
_MOST_IN_PARTS: Final = 100
_SHORTEST_PART: Final = 4
_SHORTEST_CAPITALS: Final = 6
_LONGEST: Final = 80
_REST: Final = r"[^\W\d_]*(?:['\u2019-][^\W\d_]+)*"
# A word that does not begin with a lower-case ASCII letter, including scripts without cases.
_WORD: Final = re.compile(rf"(?<![^\W_])[^\W\d_a-z]{_REST}")

# Text directly before a family name: initials, or a given name.
_INITIALS_BEFORE: Final = re.compile(r"(?<![^\W_])(?:[A-Z]\.[ -]?){1,3}\Z")
_UPPER: Final = shared("upper")
_LOWER: Final = shared("lower")
_GIVEN_BEFORE: Final = re.compile(
    rf"(?<![^\W_])[A-Z{_UPPER}][a-z{_LOWER}]{{2,20}}(?:-[A-Z{_UPPER}][a-z{_LOWER}]{{2,20}})? \Z"
)
_LONGEST_BEFORE: Final = 48
_ENDS_SENTENCE: Final = '.!?:;>|"\n\r\t'
# Capitalised nouns of people, which occur beside names.
_NOUNS_OF_PEOPLE: Final = words("people_nouns")
_NO_GIVEN_NAME: Final = re.compile(f"(?i:{shared('titles')}|{shared('role_fields')}|{shared('relations')})")


class KnownNames:
    """Known names of one document. Not thread-safe, because every text adds names."""

    def __init__(self) -> None:
        # Whole names by their first word, and names and parts of names that are one word.
        self._longer: dict[str, list[tuple[str, float]]] = {}
        self._words: dict[str, float] = {}
        self._names: set[str] = set()
        # The first letters of the names that end in a word.
        self._letters: dict[str, set[str]] = {}
        self._word: re.Pattern[str] | None = None

    def repeated(self, text: str, values: Iterable[Value]) -> list[Value]:
        """Learns the names among the values of a text; returns all occurrences of known names in the text."""
        persons = [value for value in values if value[2] == "PERSON"]
        # In order, because only the first of many names count.
        self.learn(dict.fromkeys((text[start:end], score) for start, end, _, score in persons))
        return self.find(text, {start for start, _, _, _ in persons})

    def learn(self, names: Iterable[tuple[str, float]]) -> None:
        """Adds names with their scores, up to MOST_NAMES."""
        for name, score in names:
            if self.full:
                return
            if score < _LEAST_SCORE or name in self._names or len(name) > _LONGEST:
                continue
            self._names.add(name)
            words = [word[0] for word in _WORD.finditer(name)]
            if not words or not may_be_person(name):
                continue
            self._word = None
            self._letters.setdefault(words[-1], set()).add(words[0][0] if len(words) > 1 else "")
            self._add(words[0], name[name.index(words[0]) :], score)
            if len(self._names) <= _MOST_IN_PARTS:
                for word in words:
                    # A short word in capitals is likely an abbreviation.
                    shortest = _SHORTEST_CAPITALS if word.isupper() else _SHORTEST_PART
                    if len(word) >= shortest or not word.isascii():
                        self._add(word, word, score)

    def _add(self, first: str, name: str, score: float) -> None:
        for one, written in {(first, name), (first.upper(), name.upper()), (first.title(), name.title())}:
            if one == written:
                self._words.setdefault(one, score)
            else:
                self._longer.setdefault(one, []).append((written, score))

    @property
    def full(self) -> bool:
        """Returns whether no more names are learned."""
        return len(self._names) >= MOST_NAMES

    @property
    def empty(self) -> bool:
        """Returns whether no name is known."""
        return not self._longer and not self._words

    def _known_words(self) -> re.Pattern[str]:
        """Returns a pattern of the words that begin a known name."""
        if self._word is None:
            begins = {word[0] for words in (self._longer, self._words) for word in words}
            self._word = re.compile(rf"[{''.join(sorted(begins))}](?<![^\W_].){_REST}", re.DOTALL)
        return self._word

    def find(self, text: str, found_at: Collection[int] = ()) -> list[Value]:
        """Returns the occurrences of known names in a text; of a part only if the text does not use it as a word.

        Occurrences at the positions `found_at` are left out, because they are known already.
        """
        longer, words = self._longer, self._words
        if self.empty:
            return []
        found: list[Value] = []
        ordinary: set[str] | None = None
        for word in self._known_words().finditer(text):
            first = word[0]
            if first not in words and first not in longer:
                continue
            start = word.start()
            if start in found_at:
                continue
            if first in words:
                if ordinary is None:
                    ordinary = set(text.split())
                lower = first.lower()
                if lower == first or ordinary.isdisjoint((lower, lower + ".", lower + ",")):
                    begin = self._begin(text, start, first, ordinary)
                    found.append((begin, start + len(first), "PERSON", words[first]))
            if first in longer:
                for name, score in longer[first]:
                    end = start + len(name)
                    if text.startswith(name, start) and not text[end : end + 1].isalnum():
                        found.append((start, end, "PERSON", score))
        return found

    def _begin(self, text: str, start: int, family_name: str, ordinary: Collection[str]) -> int:
        """Returns the start of the initials or given name directly before a family name.

        The first word of a sentence is no given name, unless its initial is known with the family name.
        """
        letters = self._letters.get(family_name)
        if letters is None:
            return start
        low = max(start - _LONGEST_BEFORE, 0)
        if (initials := _INITIALS_BEFORE.search(text, low, start)) is not None:
            return initials.start()
        given = _GIVEN_BEFORE.search(text, low, start)
        if given is None:
            return start
        word = given[0][:-1]
        before = text[max(given.start() - 2, 0) : given.start()].rstrip(" ")[-1:] or "\n"
        if (
            (before in _ENDS_SENTENCE and word[0] not in letters)
            or word.lower() in ordinary
            or word.lower() in _NOUNS_OF_PEOPLE
            or _NO_GIVEN_NAME.fullmatch(word) is not None
            or not may_be_person(word)
        ):
            return start
        return given.start()
