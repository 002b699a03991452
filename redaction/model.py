"""Interface of a model that recognises personal data."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol


@dataclass(frozen=True, slots=True)
class Mention:
    """A value that a model found: its entity type, its exact text, and the model's confidence from 0 to 1.

    `start` is its place in the text; None for every place where it stands as whole words.
    """

    type: str
    quote: str
    score: float
    start: int | None = None


class Column(NamedTuple):
    """Lines of a text, from `start` up to `end`, that each hold one value of the same kind behind `prefix` characters.

    The prefix is the name of a column of a table, or of a key.
    """

    start: int
    end: int
    prefix: int


class ModelError(Exception):
    """A model could not be asked; `__cause__` says why. Another try may succeed."""


class ModelExhaustedError(Exception):
    """A model may not be asked any more; what it was not asked about is searched by the rules alone."""


class ModelNotInstalledError(Exception):
    """A package that the local model needs is not installed."""


class ModelRecognizer(Protocol):
    """A model used as a recognizer beside the rules.

    A language model returns quotes without a place, because it miscounts characters; the engine looks every quote up in
    the text. An exception other than ModelExhaustedError ends the sweep: the caller retries, and nothing unswept is
    released meanwhile.
    """

    def find(self, text: str, categories: Collection[str], columns: Sequence[Column] = ()) -> Sequence[Mention]:
        """Returns the mentions of values of these entity types in a window of 8,192 characters and its surroundings.

        `columns` are the parts of it that are columns of a table, in order.
        """
        ...
