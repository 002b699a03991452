"""Returns the pages that deletions left free in an SQLite file to the file system."""

import logging
import sqlite3
from pathlib import Path
from typing import Final

LARGEST_CONVERTED_BYTES: Final = 256 * 1024 * 1024
"""The largest file of an earlier release that is rewritten at the start; a larger one would take long."""

KEPT_PAGES: Final = 256
"""Free pages that stay in the file for the next changes: a megabyte."""

PAGES_A_CHANGE: Final = 128
"""Pages that one change frees; few enough that no other change waits noticeably."""

INCREMENTAL: Final = 2
"""The mode of SQLite's `auto_vacuum` in which pages are freed when asked for."""

_LOG = logging.getLogger(__name__)


def prepare(connection: sqlite3.Connection, file: Path) -> None:
    """Has the file record where each page belongs, without which it cannot shrink; it must have no other user.

    A new file gets that at no cost, an existing one by being rewritten once. Where that is not possible now the file
    is left as it is and keeps working.
    """
    try:
        if connection.execute("PRAGMA auto_vacuum").fetchone()[0] == INCREMENTAL:
            return
        if file.stat().st_size > LARGEST_CONVERTED_BYTES:
            _LOG.warning(
                "The database file is too large to be rewritten at the start: docs/operators-guide.md says how"
            )
            return
        connection.execute(f"PRAGMA auto_vacuum = {INCREMENTAL}")
        connection.execute("VACUUM")
    except sqlite3.Error:
        _LOG.warning("The database file could not be rewritten, and keeps its size for now", exc_info=True)


def has_space_to_free(connection: sqlite3.Connection) -> bool:
    """Returns whether more pages are free than the file should keep."""
    return _free_pages(connection) > KEPT_PAGES


def free_some(connection: sqlite3.Connection) -> bool:
    """Truncates the file by some free pages, in a transaction; returns whether there were any."""
    before = _free_pages(connection)
    for _ in range(min(PAGES_A_CHANGE, before - KEPT_PAGES)):
        # With a larger number Python's driver would free one page as well: it steps once through what has no rows.
        connection.execute("PRAGMA incremental_vacuum(1)")
    return _free_pages(connection) < before


def _free_pages(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA freelist_count").fetchone()[0])
