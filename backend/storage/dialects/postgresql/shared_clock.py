"""A clock that all processes of one database agree on."""

import logging
import threading
import time
from typing import Final

from backend.storage.database import Database, DatabaseUnavailableError

_LOG = logging.getLogger(__name__)

_COMPARED_EVERY_SECONDS: Final = 30


class SharedClock:
    """The database's time in milliseconds since the epoch, independent of the setting of this machine's clock.

    It is compared with the database's regularly, and never goes backwards. A call does not block; from any thread.

    Raises:
        DatabaseUnavailableError: the database cannot be reached when the clock is made.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._last = 0
        self._ahead = self._measured()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._compare, name="shared-clock", daemon=True)
        self._thread.start()

    def __call__(self) -> int:
        """Returns the present time."""
        now = _monotonic() + self._ahead
        with self._lock:
            self._last = max(self._last, now)
            return self._last

    def stop(self) -> None:
        """Ends the comparisons."""
        self._ended.set()
        self._thread.join()

    def _compare(self) -> None:
        while not self._ended.wait(_COMPARED_EVERY_SECONDS):
            try:
                self._ahead = self._measured()
            except DatabaseUnavailableError:
                # This machine's monotonic clock serves until the next comparison.
                continue
            except Exception:  # noqa: BLE001 - whatever it is, the next comparison may succeed
                _LOG.exception("The clock could not be compared with the database's")

    def _measured(self) -> int:
        """How far the database's clock is ahead of this machine's monotonic one."""
        before = _monotonic()
        there = self._database.now()
        return there - (before + _monotonic()) // 2


def _monotonic() -> int:
    return time.monotonic_ns() // 1_000_000
