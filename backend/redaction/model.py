"""Interface of a model that recognises personal data."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Mention:
    """A value that a model found: its entity type, its exact text, and the model's confidence from 0 to 1."""

    type: str
    quote: str
    score: float


class ModelError(Exception):
    """A model could not be asked; `__cause__` says why. Another try may succeed."""


class ModelRecognizer(Protocol):
    """A model used as a recognizer beside the rules.

    It returns quotes, because models miscount characters; the engine looks every quote up in the text. An exception
    ends the sweep: the caller retries, and nothing unswept is released meanwhile.
    """

    def find(self, text: str, categories: Collection[str]) -> Sequence[Mention]:
        """Returns the mentions of values of these entity types in a window of 8,192 characters and its surroundings."""
        ...
