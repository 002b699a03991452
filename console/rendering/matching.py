"""Tolerant matching of typed words with names, for searches that would find nothing otherwise."""

from typing import Final

_FEWEST_CHARS: Final = 3
"""Characters from which on a word may have a mistake."""


def resembles(text: str, typed: str) -> bool:
    """Returns whether every typed word is like the beginning of a word of a text, ignoring case.

    A typed word may have one character too many, too few, wrong, or swapped with the next, or leave characters out.
    """
    names = text.lower().split()
    words = typed.lower().split()
    return bool(words) and all(any(_is_like(word, name) for name in names) for word in words)


def _is_like(word: str, name: str) -> bool:
    if name.startswith(word):
        return True
    if len(word) < _FEWEST_CHARS:
        return False
    rest = iter(name)
    in_order = name[0] == word[0] and all(char in rest for char in word)
    return in_order or any(_is_one_change(word, name[: len(word) + more]) for more in (-1, 0, 1))


def _is_one_change(one: str, other: str) -> bool:
    start = _shared(one, other)
    one, other = one[start:], other[start:]
    end = _shared(one[::-1], other[::-1])
    one, other = one[: len(one) - end], other[: len(other) - end]
    return max(len(one), len(other)) <= 1 or (len(one) == 2 and one == other[::-1])


def _shared(one: str, other: str) -> int:
    """Returns the number of characters with which both begin."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (char, its) in pairs if char != its), min(len(one), len(other)))
