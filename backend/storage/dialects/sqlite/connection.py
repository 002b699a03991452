"""Connections to an SQLite file, and the write-ahead log that they share."""

import logging
import sqlite3
from pathlib import Path
from typing import Final

_LOG = logging.getLogger(__name__)
_BUSY_MS: Final = 10_000
# A reader of large pages must not hold up every writer.
_LOG_BUSY_MS: Final = 250
_PRAGMAS: Final = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    f"PRAGMA busy_timeout = {_BUSY_MS}",
    "PRAGMA temp_store = MEMORY",
    # Deleted content is overwritten, not only unlinked from its page.
    "PRAGMA secure_delete = ON",
)


def connect(path: Path) -> sqlite3.Connection:
    """Opens a connection that commits each statement by itself unless a transaction is begun."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=512, timeout=10)
    for pragma in _PRAGMAS:
        connection.execute(pragma)
    return connection


def empty_log(connection: sqlite3.Connection) -> bool:
    """Writes the write-ahead log into the database and truncates it, as it still holds deleted content.

    False when a reader is in the way; it is to be tried again after the next commit.
    """
    try:
        connection.execute(f"PRAGMA busy_timeout = {_LOG_BUSY_MS}")
        try:
            blocked = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        finally:
            connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
    except sqlite3.Error:
        # What was committed holds, and the writer must live on.
        _LOG.warning("The write-ahead log could not be emptied", exc_info=True)
        return False
    return not blocked
