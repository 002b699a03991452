"""A word of a text as the local model sees it."""

from typing import NamedTuple


class Word(NamedTuple):
    """A word, or a run of words, of a text from `start` up to `end`.

    `entity` is its most likely entity type, and `likelihood`, 0 to 1, how likely it has one.
    """

    start: int
    end: int
    entity: str
    likelihood: float


def line_around(text: str, word: Word) -> str:
    """Returns the lines of a text that a word stands on, without the line break after them."""
    start, end = text.rfind("\n", 0, word.start) + 1, text.find("\n", word.end)
    return text[start:] if end < 0 else text[start:end]
