"""The failure of a model that is asked for personal data, and how it is asked again."""

from typing import Final

from backend.retry import Backoff, RetryPolicy


class ModelFailedError(Exception):
    """A model could not be asked; the text says why, without quoting the provider or the question.

    `final` says that trying again is useless.
    """

    def __init__(self, description: str, *, final: bool) -> None:
        super().__init__(description)
        self.final = final


MODEL_RETRY: Final = RetryPolicy(
    retry_on=lambda error: isinstance(error, ModelFailedError) and not error.final,
    backoff=Backoff(first_seconds=1.0, longest_seconds=30.0),
    attempts=7,
    describe=str,
)
"""For a model that fails: about a minute of waiting in all."""
