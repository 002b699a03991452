"""Search by RE2, in time linear in the text for any pattern.

This module alone uses a private part of google-re2 (docs/decisions/0036). Its tests compare the results with the
public interface, and pyproject.toml bounds the package's version.
"""

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import re2  # type: ignore[import-untyped]  # ships no types

from redaction.rules.rule import Zone

Search = Callable[[bytes, int], int]
"""Returns the first position of a pattern in Latin-1 text from a position on; -1 for none."""

# Bytes for the states of searches for many patterns at once.
_SET_BYTES: Final = 32 * 1024 * 1024
_OPTIONS = re2.Options()
_OPTIONS.encoding = re2.Options.Encoding.LATIN1
_OPTIONS.log_errors = False

# Where the last _FEW positions are closer than _DENSE on average, `re` reads a stretch of text faster than RE2 finds
# the next position.
_FEW: Final = 8
_DENSE: Final = 32
_STRETCH: Final = 1_024


def search_for(pattern: str) -> Search:
    """Compiles a pattern."""
    compiled = re2.compile(pattern.encode("latin-1"), _OPTIONS)
    # The public `search` wraps the position in three objects, which takes three times as long.
    match: Any = compiled._regexp.Match  # noqa: SLF001 - as above
    unanchored = re2._re2.RE2.Anchor.UNANCHORED  # noqa: SLF001 - as above

    def search(raw: bytes, place: int) -> int:
        return int(match(unanchored, raw, place, len(raw))[0][0])

    return search


def patterns_in(patterns: Sequence[str], of: int = 1) -> Callable[[bytes], Collection[int]]:
    """Compiles patterns to a function that returns the indices of patterns found in a Latin-1 text with a line break.

    The function reads the text once for any number of patterns. It returns all indices if its memory is insufficient;
    `of` is the number of such functions that share the memory.
    """
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    options.max_mem = _SET_BYTES // of
    together = re2.Set.SearchSet(options)
    for pattern in patterns:
        together.Add(pattern.encode("latin-1"))
    # RE2 returns no index if memory is insufficient; this pattern matches every text, and so tells both cases apart.
    always = together.Add(b"\n")
    together.Compile()
    every = frozenset(range(len(patterns)))

    def found(raw: bytes) -> Collection[int]:
        indices = together.Match(raw) or ()
        return every.intersection(indices) if always in indices else every

    return found


def matching_patterns(patterns: Sequence[str]) -> Callable[[bytes], Sequence[int]]:
    """Compiles patterns to a function that returns the indices of patterns that match a whole Latin-1 text."""
    together = re2.Set.FullMatchSet(_OPTIONS)
    for pattern in patterns:
        together.Add(pattern.encode("latin-1"))
    together.Compile()
    return lambda raw: together.Match(raw) or ()


def first_characters(pattern: str) -> str:
    """Returns a class of the possible first characters of matches; "" if unknown."""
    compiled = re2.compile(f"^(?:{pattern})".encode("latin-1"), _OPTIONS)
    try:
        low, high = compiled.possiblematchrange(1)
    except re2.error:
        return ""
    return rf"[\x{low[0]:02x}-\x{high[0]:02x}]" if low and high else ""


def at_first_characters(characters: str, pattern: str) -> str:
    """Returns an equivalent pattern for `re` that is faster, because it tries only at possible first characters.

    `pattern` consumes no characters; the returned pattern consumes the first.
    """
    return f"{characters}(?<={pattern}{characters})" if characters else pattern


def scan(
    search: Search,
    pattern: re.Pattern[str],
    normalised_text: str,
    raw: bytes,
    zones: Sequence[Zone],
    longest: int,
    shift: int = 0,
) -> list[re.Match[str]]:
    """Returns the matches of the pattern that begin in the zones, which are in order and may overlap.

    The pattern consumes one character at most, so that its groups may overlap, and reads at most `longest`
    characters. `search` finds at least every match of the pattern in `raw`, the normalised text between two line
    breaks, `shift` characters behind its position in the text.
    """
    matches: list[re.Match[str]] = []
    recent: list[int] = []
    place = -1
    for low, high in zones:
        if place < low + shift:
            place = search(raw, low + shift)
        while 0 <= place < high + shift:
            at = place - shift
            if (found := pattern.match(normalised_text, at)) is not None:
                matches.append(found)
            recent.append(at)
            if len(recent) < _FEW or at - recent[-_FEW] >= _FEW * _DENSE:
                place = search(raw, place + 1)
                continue
            until = min(at + _STRETCH, high)
            for found in pattern.finditer(normalised_text, at + 1, until + longest + 1):
                if found.start() >= until:
                    break
                matches.append(found)
            # Where most positions are no matches, half as many are enough to go on with `re`.
            recent = [found.start() for found in matches[-_FEW:] if found.start() > at] or [until] * (_FEW // 2)
            place = search(raw, until + shift)
        if place < 0:
            break
    return matches
