"""Searches by RE2, in time linear in the text whatever the pattern.

The only module that uses private parts of google-re2. Its own tests compare them with the public interface, and
pyproject.toml bounds its version.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import re2  # type: ignore[import-untyped]  # ships no types

Search = Callable[[bytes, int], int]
"""Returns where a pattern is first found in Latin-1 text from a place on; -1 for nowhere."""

# Memory for the states of searches for many patterns at once.
_SET_BYTES: Final = 32 * 1024 * 1024
_OPTIONS = re2.Options()
_OPTIONS.encoding = re2.Options.Encoding.LATIN1
_OPTIONS.log_errors = False


def search_for(pattern: str) -> Search:
    """Compiles a pattern."""
    compiled = re2.compile(pattern.encode("latin-1"), _OPTIONS)
    # The public `search` wraps the place in three objects, which takes three times as long.
    match: Any = compiled._regexp.Match  # noqa: SLF001 - as above
    unanchored = re2._re2.RE2.Anchor.UNANCHORED  # noqa: SLF001 - as above

    def search(raw: bytes, place: int) -> int:
        return int(match(unanchored, raw, place, len(raw))[0][0])

    return search


def patterns_in(patterns: Sequence[str], of: int = 1) -> Callable[[bytes], Collection[int]]:
    """Compiles patterns to a function that returns the indices of those found in a Latin-1 text with a line break.

    It reads the text once, whatever the number of patterns. All indices are returned where its memory does not suffice,
    which it shares with the others `of` so many.
    """
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    options.max_mem = _SET_BYTES // of
    together = re2.Set.SearchSet(options)
    for pattern in patterns:
        together.Add(pattern.encode("latin-1"))
    # No index is returned for a text that takes too much memory; this one is returned for every other.
    always = together.Add(b"\n")
    together.Compile()
    match: Callable[[bytes], Sequence[int]] = together._set.Match  # noqa: SLF001 - as above
    every = frozenset(range(len(patterns)))

    def found(raw: bytes) -> Collection[int]:
        indices = match(raw)
        return every.intersection(indices) if always in indices else every

    return found


def matching_patterns(patterns: Sequence[str]) -> Callable[[bytes], Sequence[int]]:
    """Compiles patterns to a function that returns the indices of those that match the whole of a Latin-1 text."""
    together = re2.Set.FullMatchSet(_OPTIONS)
    for pattern in patterns:
        together.Add(pattern.encode("latin-1"))
    together.Compile()
    # The public `Match` takes the same, and returns None for no index.
    match: Callable[[bytes], Sequence[int]] = together._set.Match  # noqa: SLF001 - as above
    return match


def first_characters(pattern: str) -> str:
    """Returns a class of characters that holds the first of every match; "" where no such class is known."""
    compiled = re2.compile(f"^(?:{pattern})".encode("latin-1"), _OPTIONS)
    try:
        low, high = compiled.possiblematchrange(1)
    except re2.error:
        return ""
    return rf"[\x{low[0]:02x}-\x{high[0]:02x}]" if low and high else ""


def at_first(characters: str, pattern: str) -> str:
    """Returns a pattern for `re` that finds the same places, faster: it tries only where a first character is.

    `pattern` takes no characters; the one returned takes the first.
    """
    return f"{characters}(?<={pattern}{characters})" if characters else pattern
