"""Searches by RE2, in time linear in the text whatever the pattern."""

from collections.abc import Callable
from typing import Any

import re2  # type: ignore[import-untyped]  # ships no types

Search = Callable[[bytes, int], int]

_OPTIONS = re2.Options()
_OPTIONS.encoding = re2.Options.Encoding.LATIN1
_OPTIONS.log_errors = False


def search_for(pattern: str) -> Search:
    """A function that tells where a pattern is first found in Latin-1 from a place on; -1 for nowhere."""
    compiled = re2.compile(pattern.encode("latin-1"), _OPTIONS)
    # The wrapper's own search makes three objects to tell one number, in three times the time.
    match: Any = compiled._regexp.Match  # noqa: SLF001 - as above
    unanchored = re2._re2.RE2.Anchor.UNANCHORED  # noqa: SLF001 - as above

    def search(raw: bytes, place: int) -> int:
        return int(match(unanchored, raw, place, len(raw))[0][0])

    return search


def first_characters(pattern: str) -> str:
    """A class with every character that a match can begin with, and often others; "" where none is known."""
    compiled = re2.compile(f"^(?:{pattern})".encode("latin-1"), _OPTIONS)
    known, low, high = compiled._regexp.PossibleMatchRange(1)  # noqa: SLF001 - the wrapper hides it
    return rf"[\x{low[0]:02x}-\x{high[0]:02x}]" if known and low and high else ""


def at_first(characters: str, pattern: str) -> str:
    """A pattern that takes nothing, sought in `re` only where one of its first characters stands: that one is taken."""
    return f"{characters}(?<={pattern}{characters})" if characters else pattern
