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
