"""Lines of a log that hold a text."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from console.rendering.page_budget import PageBudget, html_bytes

MOST_SOUGHT_CHARS: Final = 200

_MOST_LINES: Final = 250
_MOST_LINE_CHARS: Final = 300
_BEFORE_CHARS: Final = 80
_LINE_BYTES: Final = 10
_MARK_BYTES: Final = 7


class MatchingLine(NamedTuple):
    """A line with its number from 1, in parts; every second one is the text that was sought."""

    number: int
    parts: Sequence[str]


class LogMatches(NamedTuple):
    """The first lines that hold the text, and how many do."""

    lines: Sequence[MatchingLine]
    total: int


def matching_lines(text: str, sought: str, room: PageBudget) -> LogMatches:
    """Returns the lines of a text that hold another, in whatever case, each cut around its first match.

    There are as many as the page has room for.
    """
    pattern = re.compile(f"({re.escape(sought)})", re.IGNORECASE)
    lines: list[MatchingLine] = []
    total, full = 0, False
    for number, line in enumerate(text.splitlines(), 1):
        match = pattern.search(line)
        if match is None:
            continue
        total += 1
        if len(lines) < _MOST_LINES and not full:
            start = max(0, match.start() - _BEFORE_CHARS)
            part = line[start : start + _MOST_LINE_CHARS]
            parts = pattern.split(part)
            if room.holds(_LINE_BYTES + html_bytes(part) + _MARK_BYTES * len(parts)):
                lines.append(MatchingLine(number, parts))
            else:
                full = True
    return LogMatches(lines, total)
