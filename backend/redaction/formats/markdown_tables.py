"""Finds the cells of tables in Markdown, where the row above a line of dashes names the columns, and other text."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from backend.redaction.formats.labelled_text import Labelled

_RULE: Final = re.compile(r"[ \t]*\|?(?:[ \t]*:?-+:?[ \t]*\|)+(?:[ \t]*:?-+:?)?[ \t]*\|?[ \t]*")
_CELL: Final = re.compile(r"(?:[^|\\]|\\.)+")
_MARKS: Final = "*_` \t"


class MarkdownTables:
    """Finder of the cells of the tables of one file."""

    def __init__(self) -> None:
        self._names: list[str] = []

    def __call__(self, text: str) -> Iterator[Labelled]:
        """Yields the cells in some lines, and without a label the text between tables."""
        start = below = 0
        lines = text.split("\n")
        for line, following in pairwise([*lines, ""]):
            bare = line.rstrip("\r")
            if "|" not in bare:
                self._names = []
            elif "|" in following and _RULE.fullmatch(following.rstrip("\r")):
                yield from _between(text, below, start)
                self._names = [name for _, _, name in _cells(bare)]
                below = start + len(line) + 1
            elif self._names:
                yield from _between(text, below, start)
                below = start + len(line) + 1
                for (low, high, cell), name in zip(_cells(bare), self._names, strict=False):
                    if cell:
                        yield Labelled(start + low, start + high, cell, name)
            start += len(line) + 1
        yield from _between(text, below, len(text))


def _between(text: str, low: int, high: int) -> Iterator[Labelled]:
    if any(map(str.isalnum, written := text[low:high])):
        yield Labelled(low, high, written)


def _cells(line: str) -> Iterator[tuple[int, int, str]]:
    """Yields where the text of each cell of a row begins and ends, and the text."""
    low = len(line) - len(line.lstrip(" \t"))
    low += line[low : low + 1] == "|"
    while low < len(line):
        found = _CELL.match(line, low)
        end = low if found is None else found.end()
        raw = line[low:end]
        inner = raw.strip(_MARKS)
        first = low + raw.index(inner)
        yield first, first + len(inner), inner
        low = end + 1
