"""Finds every match of a pattern: by RE2, in linear time, where matches are rare, and by `re` where they are dense."""

import re
from collections.abc import Sequence
from typing import Final

from backend.redaction.rules.rule import Zone
from backend.redaction.search.linear_search import Search

# Where the last _FEW places are closer than _DENSE on average, `re` reads a stretch of text faster than RE2 finds the
# next place.
_FEW: Final = 8
_DENSE: Final = 32
_STRETCH: Final = 1_024


def scan(
    search: Search,
    pattern: re.Pattern[str],
    plain: str,
    raw: bytes,
    zones: Sequence[Zone],
    longest: int,
    shift: int = 0,
) -> list[re.Match[str]]:
    """Returns the matches of the pattern that begin in the zones, which are in order and may overlap.

    The pattern takes one character at most, so that its groups may overlap, and reads at most `longest` characters.
    `search` finds at least every match of the pattern in `raw`, which is `plain` between two line breaks, `shift`
    characters behind its place in `plain`.
    """
    matches: list[re.Match[str]] = []
    recent: list[int] = []
    place = -1
    for low, high in zones:
        if place < low + shift:
            place = search(raw, low + shift)
        while 0 <= place < high + shift:
            at = place - shift
            if (found := pattern.match(plain, at)) is not None:
                matches.append(found)
            recent.append(at)
            if len(recent) < _FEW or at - recent[-_FEW] >= _FEW * _DENSE:
                place = search(raw, place + 1)
                continue
            until = min(at + _STRETCH, high)
            for found in pattern.finditer(plain, at + 1, until + longest + 1):
                if found.start() >= until:
                    break
                matches.append(found)
            # Where most places are no matches, half as many are enough to go on with `re`.
            recent = [found.start() for found in matches[-_FEW:] if found.start() > at] or [until] * (_FEW // 2)
            place = search(raw, until + shift)
        if place < 0:
            break
    return matches
