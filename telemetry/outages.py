"""Logging of work that is repeated until it succeeds."""

import logging
from typing import Final

_MOST_KINDS: Final = 10
"""Most kinds of failure that are logged in one outage; texts of errors may differ each time."""


class RepeatedWork:
    """Logs each kind of failure of repeated work once, and then its recovery. For one thread."""

    def __init__(self, log: logging.Logger, failure: str, recovery: str, level: int = logging.WARNING) -> None:
        self._log = log
        self._failure = failure
        self._recovery = recovery
        self._level = level
        self._said: set[str] = set()

    def failed(self, error: Exception, *, traceback: bool = True) -> None:
        """Logs a failure of a new kind."""
        kind = f"{type(error).__name__}: {error}"
        if kind not in self._said and len(self._said) < _MOST_KINDS:
            self._said.add(kind)
            self._log.log(self._level, "%s: %s", self._failure, error, exc_info=error if traceback else None)

    def succeeded(self) -> None:
        """Logs the recovery after a failure."""
        if self._said:
            self._said.clear()
            self._log.log(self._level, "%s", self._recovery)
