"""Connections to an SQLite file."""

import sqlite3
from pathlib import Path
from typing import Final

BUSY_MS: Final = 10_000
"""How long a statement waits for the locks of others."""

_PRAGMAS: Final = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    f"PRAGMA busy_timeout = {BUSY_MS}",
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
