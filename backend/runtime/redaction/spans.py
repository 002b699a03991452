"""Cuts texts into windows, joins overlapping matches, and writes `[TYPE]` in the place of values."""

from collections.abc import Iterable, Iterator
from typing import Final

from backend.runtime.redaction.rule import REACH, Match, line_above

WINDOW: Final = 8_192


def windows(text: str) -> Iterator[tuple[int, int, int, int]]:
    """Cuts a text: (start, end) of what a window answers for, and (low, high) of what it must read.

    At line breaks a window keeps the lines just above; a longer line is cut with REACH characters of both neighbours.
    """
    start = 0
    low = 0
    while start < len(text):
        end = start + WINDOW
        if end >= len(text):
            yield start, len(text), low, len(text)
            return
        if (line := text.rfind("\n", start, end)) >= start:
            end = line + 1
            yield start, end, low, end
            low = line_above(text, end)
        else:
            yield start, end, low, min(_line_end(text, end), end + REACH)
            low = max(low, end - REACH)
        start = end


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start, start + REACH)
    return start + REACH if end < 0 else end


def resolved(matches: Iterable[Match]) -> list[Match]:
    """The matches in order, each group that overlaps joined to one.

    The group is named after the longest in it; among equals the higher score decides, then the name.
    """
    joined: list[Match] = []
    best: Match | None = None
    start = end = -1
    for match in sorted(matches):
        if best is None or match.start >= end:
            if best is not None:
                joined.append(_spread(best, start, end))
            best, (start, end, _, _) = match, match
            continue
        if match.end > end or match.end - match.start >= best.end - best.start:
            end = max(end, match.end)
            best = max(best, match, key=_rank)
    if best is not None:
        joined.append(_spread(best, start, end))
    return joined


def _spread(match: Match, start: int, end: int) -> Match:
    if match.start == start and match.end == end:
        return match
    return Match(start, end, match.entity, match.score)


def _rank(match: Match) -> tuple[int, float, str]:
    return match.end - match.start, match.score, match.entity


def replaced(text: str, matches: Iterable[Match]) -> str:
    """The text with `[TYPE]` in the place of every match; they are in order and do not overlap."""
    parts = []
    place = 0
    for match in matches:
        parts += [text[place : match.start], f"[{match.entity}]"]
        place = match.end
    parts.append(text[place:])
    return "".join(parts)
