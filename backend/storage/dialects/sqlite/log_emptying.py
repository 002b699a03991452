"""Empties the write-ahead log of an SQLite file of deleted content, once no reader is in the way."""

import logging
import sqlite3
from time import monotonic
from typing import Final

from backend.storage.dialects.sqlite.connection import BUSY_MS
from telemetry.outages import RepeatedWork

_LOG = logging.getLogger(__name__)
# A reader of large pages must not hold up every writer.
_LOG_BUSY_MS: Final = 250
_PAUSE_SECONDS: Final = 5.0
_LONG_READER: Final = TimeoutError("a long reader is in the way, such as a backup or an open sqlite3 shell")


class LogEmptying:
    """Empties the write-ahead log of deleted content, again after a pause while a reader is in the way.

    For one thread. An attempt keeps commits waiting for up to `_LOG_BUSY_MS`, so it is not made after each of them.
    """

    def __init__(self, *, wanted: bool) -> None:
        self._due = monotonic() if wanted else None
        self._blocked = False
        self._attempts = RepeatedWork(
            _LOG,
            "Erased data is still in the files of the database, whose write-ahead log cannot be emptied now",
            "The write-ahead log of the database was emptied of erased data",
        )

    def request(self) -> None:
        """Has the log emptied at the next attempt, which is due unless one has just failed."""
        if self._due is None:
            self._due = monotonic()

    def postpone(self) -> None:
        """Puts a requested attempt off."""
        if self._due is not None:
            self._due = monotonic() + _PAUSE_SECONDS

    def seconds_left(self) -> float | None:
        """Returns the time until the next attempt; None if there is nothing to be emptied."""
        return None if self._due is None else max(0.0, self._due - monotonic())

    def attempt(self, connection: sqlite3.Connection, *, early: bool = False) -> None:
        """Empties the log if that is requested and due, or `early`."""
        if self._due is None or (self._due > monotonic() and not early):
            return
        try:
            blocked = _is_blocked(connection)
        except sqlite3.Error as error:
            # What was committed holds, and the writer must live on.
            self._attempts.failed(error)
            self.postpone()
            return
        if not blocked:
            self._due = None
            self._attempts.succeeded()
        else:
            if self._blocked:
                self._attempts.failed(_LONG_READER, traceback=False)
            self.postpone()
        self._blocked = blocked


def _is_blocked(connection: sqlite3.Connection) -> bool:
    """Writes the write-ahead log into the database and truncates it; returns whether a reader prevents that."""
    connection.execute(f"PRAGMA busy_timeout = {_LOG_BUSY_MS}")
    try:
        return bool(connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0])
    finally:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
