"""Finds people's names that no rule describes: in other scripts than Latin, and of speakers in chats."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from redaction.rules.persons import may_speak
from redaction.rules.rule import Value
from redaction.rules.tables import SCRIPTS, scored_patterns, table

_NO_NAMES: Final = table(SCRIPTS).words["no_names"]
_BEYOND: Final = re.compile("[\u0370-\u0523\u0600-\u06ff\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7a3]")

SPEAKER_SCORE: Final = 0.8
_LINE: Final = re.compile(r"^([a-z\u00df-\u00f6\u00f8-\u00ff][\w.-]{1,20}): ([^\r\n]+)", re.MULTILINE)
_LEAST_LINES: Final = 4
_LEAST_TURNS: Final = 2
# Least share of lines with blanks: speech has blanks between words, values of keys mostly have none.
_LEAST_SENTENCES: Final = 0.6


def names_in_scripts(text: str, offset: int) -> Iterator[Value]:
    """Yields the names in a text, in no order; `offset` is added to their positions."""
    if text.isascii() or _BEYOND.search(text) is None:
        return
    for entity, pattern, score in scored_patterns(SCRIPTS):
        for found in pattern.finditer(text):
            if found[1] not in _NO_NAMES:
                yield found.start(1) + offset, found.end(1) + offset, entity, score


def chat_speakers(text: str, offset: int) -> Iterator[Value]:
    """Yields the names of a chat's speakers in a text, in no order; `offset` is added to their positions.

    At least two people must speak twice or more, and alternate; records of keys repeat in one order.
    """
    lines = [(found[1], found[2]) for found in _LINE.finditer(text)]
    if len(lines) < _LEAST_LINES or _is_of_records([name for name, _ in lines]):
        return
    turns = Counter(name for name, _ in lines if may_speak(name))
    speakers = [name for name, count in turns.items() if count >= _LEAST_TURNS]
    said = [words for name, words in lines if name in turns]
    if len(speakers) < 2 or sum(" " in words for words in said) < _LEAST_SENTENCES * len(lines):
        return
    pattern = re.compile(rf"(?<![\w@.-])(?:{'|'.join(map(re.escape, sorted(turns)))})(?![\w@])")
    for found in pattern.finditer(text):
        if found[0] in speakers or text[found.end() : found.end() + 2] == ": ":
            yield found.start() + offset, found.end() + offset, "PERSON", SPEAKER_SCORE


def _is_of_records(names: list[str]) -> bool:
    """Returns whether three or more names repeat in the order of their first occurrence, as in records."""
    distinct = list(dict.fromkeys(names))
    return len(distinct) > 2 and all(name == distinct[index % len(distinct)] for index, name in enumerate(names))
