"""Finds the names of people again that a document has held already, also by one part of them."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from backend.redaction.rules.name_forms import may_be_person
from backend.redaction.rules.rule import Value

# A name found with less is none too often to look for everywhere.
_LEAST_SCORE: Final = 0.8
# Of a document with more names, such as a table of customers, the others are found where they stand alone.
MOST_NAMES: Final = 500
# With more names than this one of their parts is likely to be an ordinary word, too.
_MOST_IN_PARTS: Final = 100
_SHORTEST_PART: Final = 4
_LONGEST: Final = 80
# A word that begins with no lower-case ASCII letter; letters of scripts without cases begin one too.
_WORD: Final = re.compile(r"(?<![^\W_])[^\W\d_a-z][^\W\d_]*(?:['\u2019-][^\W\d_]+)*")
_LOWER_WORD: Final = re.compile(r"[^\W\d_A-Z][^\W\d_]{2,}")


class KnownNames:
    """Names of one document. Not thread-safe: it learns names with every text."""

    def __init__(self) -> None:
        self._entries: dict[str, list[tuple[str, float]]] = {}
        self._names: set[str] = set()

    def repeated(self, text: str, values: Iterable[Value]) -> list[Value]:
        """Learns the names among the values of a text, and returns where it holds names that are known now."""
        self.learn([(text[start:end], score) for start, end, entity, score in values if entity == "PERSON"])
        return self.find(text)

    def learn(self, names: Sequence[tuple[str, float]]) -> None:
        """Takes names with their scores."""
        for name, score in names:
            if len(self._names) >= MOST_NAMES:
                return
            if score < _LEAST_SCORE or name in self._names or len(name) > _LONGEST:
                continue
            self._names.add(name)
            words = [word[0] for word in _WORD.finditer(name)]
            if not words or not may_be_person(name):
                continue
            self._add(words[0], name[name.index(words[0]) :], score)
            if len(self._names) <= _MOST_IN_PARTS:
                for word in words:
                    if len(word) >= _SHORTEST_PART or not word.isascii():
                        self._add(word, word, score)

    def _add(self, first: str, name: str, score: float) -> None:
        for one, written in {(first, name), (first.upper(), name.upper()), (first.title(), name.title())}:
            entries = self._entries.setdefault(one, [])
            if all(known != written for known, _ in entries):
                entries.append((written, score))

    def find(self, text: str) -> list[Value]:
        """Returns where known names stand in a text; a part of a name only if the text uses it as no other word."""
        if not self._entries:
            return []
        found: list[Value] = []
        ordinary: set[str] | None = None
        entries = self._entries
        for word in _WORD.finditer(text):
            if word[0] not in entries:
                continue
            start = word.start()
            for name, score in entries[word[0]]:
                end = start + len(name)
                if not text.startswith(name, start) or text[end : end + 1].isalnum():
                    continue
                if name == word[0]:
                    if ordinary is None:
                        ordinary = set(_LOWER_WORD.findall(text))
                    if name.lower() in ordinary:
                        continue
                found.append((start, end, "PERSON", score))
        return found
