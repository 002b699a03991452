"""A clock that all processes of one database agree on."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from backend.storage.database import Database, DatabaseUnavailableError

_LOG = logging.getLogger(__name__)

_COMPARED_EVERY_SECONDS: Final = 5.0
"""Much less than a lease lasts, so that processes renew by the corrected time before others consider them dead."""

_STANDS_STILL_MS: Final = 1_000
"""A correction back by less lets the clock stand still for so long; by more, the clock goes back."""

_FIRST_STEP_BACK_MS: Final = 2_000
_REST_AFTER_MS: Final = 15_000
"""Longer than the time between comparisons, so that every process has made its first step; less than a lease lasts."""


def _steady() -> int:
    """Returns milliseconds of a clock that nobody sets, if possible one that goes on while the machine is suspended."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1_000_000


class SharedClock:
    """The database's time in milliseconds since the epoch, independent of the setting of this machine's clock.

    It goes on by a clock of this machine that nobody sets, and follows the database's, which it is compared with every
    five seconds. It does not wait for a database whose clock stepped back, as after a failover to a server that is
    behind: a correction back by up to two seconds is made immediately, and of a larger one first two seconds and the
    rest fifteen seconds later. With the first step reapers notice a jump of the clock (`ClockJumpDetector`) and spare
    leases of other processes, before any process writes a lease by the earlier time.

    A call does not block; from any thread.

    Raises:
        DatabaseUnavailableError: the database cannot be reached when the clock is made.
    """

    def __init__(self, database: Database, steady: Callable[[], int] = _steady) -> None:
        self._database = database
        self._steady = steady
        self._lock = threading.Lock()
        self._last = 0
        least, most = self._bounds()
        self._ahead = (least + most) // 2
        self._rest_at: int | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="shared-clock", daemon=True)
        self._thread.start()

    def __call__(self) -> int:
        """Returns the present time."""
        now = self._steady() + self._ahead
        with self._lock:
            if not now < self._last < now + _STANDS_STILL_MS:
                self._last = now
            return self._last

    def stop(self) -> None:
        """Ends the comparisons."""
        self._ended.set()
        self._thread.join()

    def compare(self) -> None:
        """Compares with the database's clock, and corrects; the clock's own thread calls it regularly.

        Raises:
            DatabaseUnavailableError: the database cannot be reached.
        """
        least, most = self._bounds()
        if self._ahead - most <= _FIRST_STEP_BACK_MS or (self._rest_at is not None and self._steady() >= self._rest_at):
            self._rest_at = None
            self._ahead = min(max(self._ahead, least), most)
        elif self._rest_at is None:
            self._rest_at = self._steady() + _REST_AFTER_MS
            self._ahead -= _FIRST_STEP_BACK_MS

    def _run(self) -> None:
        while not self._ended.wait(_COMPARED_EVERY_SECONDS):
            try:
                self.compare()
            except DatabaseUnavailableError:
                # This machine's steady clock serves until the next comparison.
                continue
            except Exception:  # noqa: BLE001 - whatever it is, the next comparison may succeed
                _LOG.exception("The clock could not be compared with the database's")

    def _bounds(self) -> tuple[int, int]:
        """Returns the least and most milliseconds that the database's clock is ahead of this machine's steady clock.

        A slow answer gives wide bounds, and so corrects only what it proves wrong.
        """
        before = self._steady()
        database_now = self._database.now()
        return database_now - self._steady(), database_now + 1 - before
