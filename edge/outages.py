"""What the log says of work that is repeated until it succeeds."""

import logging

from edge.errors import NoAnswer, Refusal


class RepeatedWork:
    """Logs that work fails, again only if it fails in another way, and then that it goes on.

    Nothing of a backend that does not answer: the channel has logged that.
    """

    def __init__(self, log: logging.Logger, failure: str, recovery: str, level: int = logging.WARNING) -> None:
        self._log = log
        self._failure = failure
        self._recovery = recovery
        self._level = level
        self._said = ""

    def failed(self, error: Exception) -> None:
        """Takes a failure."""
        kind = f"{type(error).__name__}: {error}"
        if not isinstance(error, NoAnswer) and kind != self._said:
            self._said = kind
            self._log.log(self._level, "%s: %s", self._failure, error, exc_info=not isinstance(error, Refusal))

    def succeeded(self) -> None:
        """Takes a success."""
        if self._said:
            self._said = ""
            self._log.log(self._level, "%s", self._recovery)
