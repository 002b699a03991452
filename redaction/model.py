"""Interface of a model that recognises personal data."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol


@dataclass(frozen=True, slots=True)
class Mention:
    """A value that a model found: its entity type, its exact text, and the model's confidence from 0 to 1.

    `start` is the position in the text; None for every position where the text occurs as whole words.
    """

    type: str
    quote: str
    score: float
    start: int | None = None


class Column(NamedTuple):
    """Lines of a text, from `start` up to `end`, each with one value of a common kind behind `prefix` characters.

    The prefix is the name of the column or key.
    """

    start: int
    end: int
    prefix: int


class ModelError(Exception):
    """Raised where a call of a model failed, with the reason as `__cause__`; a retry may succeed."""


class ModelExhaustedError(Exception):
    """Raised where a model's calls are used up; further texts are searched by the rules alone."""


class ModelNotInstalledError(Exception):
    """Raised where a package for the local model is not installed."""


class ModelRecognizer(Protocol):
    """A model used as a recognizer in addition to the rules.

    A language model returns quotes without positions, because it miscounts characters; the engine finds every quote in
    the text. An exception other than ModelExhaustedError ends the sweep: the caller retries, and no unswept text is
    released meanwhile.
    """

    def find(self, text: str, categories: Collection[str], columns: Sequence[Column] = ()) -> Sequence[Mention]:
        """Returns the mentions of values of these entity types in a window of 8,192 characters and its surroundings.

        `columns` are the parts of the text that are columns of a table, in order.
        """
        ...
