"""A SQLite file of the service, opened to be read beside its user: its schema, and whether its pages are sound."""

import sqlite3
from pathlib import Path
from urllib.parse import quote


def open_to_read(file: Path, *, seconds: float, immutable: bool = False) -> sqlite3.Connection:
    """Opens a file for reading alone; statements wait for so many seconds for locks of others.

    With `immutable` nothing is locked or made beside it: for a file that nobody changes.
    """
    address = f"file:{quote(str(file.absolute()))}?mode=ro{'&immutable=1' if immutable else ''}"
    return sqlite3.connect(address, uri=True, isolation_level=None, timeout=seconds)


def schema_revision(connection: sqlite3.Connection) -> str | None:
    """Returns the revision of a database's schema; None where it has none."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone():
        return None
    found = connection.execute("SELECT version_num FROM alembic_version").fetchall()
    return str(found[0][0]) if len(found) == 1 else None


def damage(connection: sqlite3.Connection) -> str | None:
    """Returns what is the matter with the pages of a database, on one line of at most 200 characters; None if nothing.

    Raises:
        sqlite3.Error: it cannot be read.
    """
    found = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    return None if found == "ok" else " ".join(found.split())[:200]
