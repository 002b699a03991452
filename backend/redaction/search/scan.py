"""Finds every match of a pattern: by RE2, linear in the text, where they are few, and by `re` where they are many."""

import re
from collections.abc import Sequence
from typing import Final

from backend.redaction.rules.rule import Zone
from backend.redaction.search.linear_search import Search

# Where the last few places are closer than this on average, `re` reads a stretch of the text sooner than a call of RE2
# finds the next of them.
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
    """The matches of the pattern at the places of the zones, which are in order and may overlap.

    The pattern takes one character at most, so that its groups may overlap, and looks at `longest` of them. `search`
    finds in `raw`, which has a line break on either side of the text, at least all that the pattern does, `shift`
    characters behind the place in the text.
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
            # Where many places are no matches, half as many tell that it goes on so.
            recent = [found.start() for found in matches[-_FEW:] if found.start() > at] or [until] * (_FEW // 2)
            place = search(raw, until + shift)
        if place < 0:
            break
    return matches
