"""What the log says of an outage of the database: its reason once, and once that the database answers again."""

import logging
import threading
from collections.abc import Callable
from time import monotonic
from typing import Final

from backend.storage.database import DatabaseUnavailableError
from telemetry.outages import RepeatedWork

_QUIET_SECONDS: Final = 2.0
"""An outage has ended if nothing failed for so long: some statements may succeed while others fail."""

_LOG = logging.getLogger(__name__)


class Outage:
    """The outage of this process's database, whoever meets it. Thread-safe.

    `lasts` may be read without a call, on the way of every statement.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.lasts = False
        self._clock = clock
        self._lock = threading.Lock()
        self._failed_at = 0.0
        self._work = RepeatedWork(_LOG, "The database is unavailable", "The database answers again")

    def error(self, text: str, reason: str) -> DatabaseUnavailableError:
        """Takes a failure; returns the error to raise for it, which nobody needs to log again."""
        self.failed(reason)
        error = DatabaseUnavailableError(f"{text}: {reason}.")
        error.logged = True
        return error

    def failed(self, reason: str) -> None:
        """Takes a failure in the words of the database, which hold no value of a statement and no secret."""
        with self._lock:
            self._failed_at = self._clock()
            self.lasts = True
            self._work.failed(DatabaseUnavailableError(reason), traceback=False)

    def answered(self) -> None:
        """Takes a success."""
        if not self.lasts:
            return
        with self._lock:
            if self._clock() - self._failed_at >= _QUIET_SECONDS:
                self.lasts = False
                self._work.succeeded()


OUTAGE: Final = Outage()
"""That of the one database of this process."""


def is_logged(error: BaseException) -> bool:
    """Returns whether an error is of an outage of the database, which the log has already."""
    return isinstance(error, DatabaseUnavailableError) and error.logged


class RepeatedRounds(RepeatedWork):
    """As other repeated work, but nothing of an outage of the database, which the log has already."""

    def failed(self, error: Exception, *, traceback: bool = True) -> None:
        """Takes a failure."""
        if is_logged(error):
            self._log.debug("%s: %s", self._failure, error)
        else:
            super().failed(error, traceback=traceback)
