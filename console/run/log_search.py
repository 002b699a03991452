"""Lines of a log that hold a text."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from console.rendering.excerpts import beginning

MOST_SOUGHT_CHARS: Final = 200

_MOST_LINES: Final = 250
_MOST_LINE_CHARS: Final = 300
_BEFORE_CHARS: Final = 80
_MOST_MARKS: Final = 20
"""Of a line."""


class MatchingLine(NamedTuple):
    """A line with its number from 1, in parts; every second one is the text that was sought."""

    number: int
    parts: Sequence[str]


class LogMatches(NamedTuple):
    """The first lines that hold the text, and how many do."""

    lines: Sequence[MatchingLine]
    total: int


def matching_lines(text: str, sought: str) -> LogMatches:
    """Returns the first lines of a text that hold another, in whatever case, each cut around its first match."""
    pattern = re.compile(f"({re.escape(sought)})", re.IGNORECASE)
    lines: list[MatchingLine] = []
    total = 0
    for number, line in enumerate(text.splitlines(), 1):
        match = pattern.search(line)
        if match is None:
            continue
        total += 1
        if len(lines) < _MOST_LINES:
            part, _ = beginning(line[max(0, match.start() - _BEFORE_CHARS) :], _MOST_LINE_CHARS)
            lines.append(MatchingLine(number, pattern.split(part, _MOST_MARKS)))
    return LogMatches(lines, total)
