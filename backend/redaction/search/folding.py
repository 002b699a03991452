"""Folds a text for the search: without characters that nobody sees, or with percent-encoded numbers decoded."""

import bisect
import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

# Soft hyphen, zero-width and joining characters, marks of direction, and selectors of variants.
_INVISIBLE: Final = "".join(
    map(
        chr,
        (
            *(0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180E, 0x3164, 0xFEFF, 0xFFA0),
            *range(0x200B, 0x2010),
            *range(0x202A, 0x202F),
            *range(0x2060, 0x2070),
            *range(0xFE00, 0xFE10),
        ),
    )
)
_UNSEEN: Final = re.compile(f"[{_INVISIBLE}]+")
# Digits, and the characters that stand between those of cards, accounts and phones.
_ENCODED: Final = re.compile(r"%(?:3[0-9]|2[0BbDdEeFf89])")
_ENCODED_NUMBER: Final = re.compile(r"%3[0-9]|%2[Bb][0-9]|[0-9]%2[0Dd8]")


@dataclass(frozen=True, slots=True)
class Folded:
    """A text that is shorter than its original, with the places from which on characters are missing."""

    text: str
    places: list[int]
    missing: list[int]
    """How many characters are missing before each place, and before all after it up to the next."""

    def original(self, place: int) -> int:
        """Returns where the character at a place of the folded text stands in the original."""
        at = bisect.bisect_right(self.places, place)
        return place + self.missing[at - 1] if at else place

    def folded(self, place: int) -> int:
        """Returns where the character at a place of the original stands in the folded text, or the one after it."""
        low, high = 0, len(self.text)
        while low < high:
            middle = (low + high) // 2
            if self.original(middle) < place:
                low = middle + 1
            else:
                high = middle
        return low


def without_unseen(text: str) -> Folded | None:
    """Returns a text without characters that nobody sees; None if it has none."""
    if text.isascii() or not any(character in text for character in _INVISIBLE):
        return None
    return _folded(text, _UNSEEN, "", 0)


def with_decoded_numbers(text: str) -> Folded | None:
    """Returns a text with percent-encoded digits and separators decoded; None if it has no such number."""
    if "%" not in text or _ENCODED_NUMBER.search(text) is None:
        return None
    return _folded(text, _ENCODED, lambda found: chr(int(found[0][1:], 16)), 1)


def _folded(
    text: str, pattern: re.Pattern[str], replacement: str | Callable[[re.Match[str]], str], kept: int
) -> Folded:
    """Replaces each match by `kept` characters."""
    spans = [found.span() for found in pattern.finditer(text)]
    missing = list(itertools.accumulate([end - start - kept for start, end in spans]))
    places = [end - gone for (_, end), gone in zip(spans, missing, strict=True)]
    return Folded(pattern.sub(replacement, text), places, missing)
