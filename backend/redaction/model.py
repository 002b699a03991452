"""What a model that recognises personal data is asked, and what it answers."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Mention:
    """A value that a model saw: its entity type, its text as it stands in what the model read, and its confidence."""

    type: str
    quote: str
    score: float


class ModelError(Exception):
    """A model could not be asked, for the reason that is the cause; another try may succeed."""


class ModelRecognizer(Protocol):
    """A model as one more recognizer.

    It answers with quotes, because models miscount characters; the engine looks every quote up in the text. An
    exception ends the sweep: the caller retries, and nothing unswept is released meanwhile.
    """

    def find(self, text: str, categories: Collection[str]) -> Sequence[Mention]:
        """The mentions of values of these entity types in at most 8,192 characters and their surroundings."""
        ...
