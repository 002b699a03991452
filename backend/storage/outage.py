"""Outages of the database: their log lines, and threads whose rounds of work outlast them.

The log has one line with the reason of an outage, and one when the database answers again.
"""

import logging
import threading
from collections.abc import Callable
from time import monotonic
from typing import Final

from backend.common import metrics
from backend.storage.database import DatabaseUnavailableError
from telemetry.outages import RepeatedWork

_QUIET_SECONDS: Final = 2.0
"""An outage has ended if nothing failed for this time: some statements may succeed while others fail."""

_LOG = logging.getLogger(__name__)


class Outage:
    """Tracks outages of this process's database for all its callers. Thread-safe.

    `lasts` is an attribute, because every statement reads it.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.lasts = False
        self._clock = clock
        self._lock = threading.Lock()
        self._failed_at = 0.0
        self._work = RepeatedWork(_LOG, "The database is unavailable", "The database answers again")

    def error(self, text: str, reason: str) -> DatabaseUnavailableError:
        """Records a failure; returns the error to raise, which nobody needs to log again."""
        self.failed(reason)
        error = DatabaseUnavailableError(f"{text}: {reason}.")
        error.logged = True
        return error

    def failed(self, reason: str) -> None:
        """Records a failure; `reason` is the database's text, without values of statements and secrets."""
        with self._lock:
            self._failed_at = self._clock()
            self.lasts = True
            self._work.failed(DatabaseUnavailableError(reason), traceback=False)

    def answered(self) -> None:
        """Records a success."""
        if not self.lasts:
            return
        with self._lock:
            if self._clock() - self._failed_at >= _QUIET_SECONDS:
                self.lasts = False
                self._work.succeeded()


OUTAGE: Final = Outage()
"""Outage of the one database of this process."""


def is_logged(error: BaseException) -> bool:
    """Returns whether an error is of an outage of the database, which the log has already."""
    return isinstance(error, DatabaseUnavailableError) and error.logged


class RepeatedDatabaseWork(RepeatedWork):
    """Repeated work on the database, whose outages it does not log: the outage itself is logged once."""

    def failed(self, error: Exception, *, traceback: bool = True) -> None:
        """Logs a failure, unless it is by an outage."""
        if is_logged(error):
            self._log.debug("%s: %s", self._failure, error)
        else:
            super().failed(error, traceback=traceback)


TICK_SECONDS: Final = 0.5
"""The period of rounds that look for changes of other processes."""


class Ticker:
    """Calls `work` after each `wake`, and `seconds` after its last call ended; several wakes may share one call.

    The first call comes at once, or `first_seconds` after the start. An exception from `work` is logged, once for an
    outage, and the thread goes on.
    """

    def __init__(self, name: str, work: Callable[[], object], seconds: float, first_seconds: float = 0.0) -> None:
        self._work = work
        self._seconds = seconds
        self._first_seconds = first_seconds
        self._woken = threading.Event()
        self._ended = False
        self._rounds = RepeatedDatabaseWork(
            _LOG, f"Rounds of {name} fail", f"Rounds of {name} succeed again", logging.ERROR
        )
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Has the thread call the work as soon as it can; from any thread, also before the start."""
        self._woken.set()

    def stop(self) -> None:
        """Ends the thread after the present call."""
        self._ended = True
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        if self._first_seconds:
            self._woken.wait(self._first_seconds)
        while not self._ended:
            self._woken.clear()
            try:
                self._work()
            except Exception as error:  # noqa: BLE001 - the thread must not end
                metrics.BACKGROUND_FAILURES.add(self._thread.name)
                self._rounds.failed(error)
            else:
                self._rounds.succeeded()
            # Checked again because a stop may have come before the clearing.
            if not self._ended:
                self._woken.wait(self._seconds)
