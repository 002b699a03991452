"""Gives the pages that deletions left free in an SQLite file back to the file system."""

import logging
import sqlite3
from pathlib import Path
from typing import Final

LARGEST_CONVERTED_BYTES: Final = 256 * 1024 * 1024
"""A larger file of an earlier release is not rewritten at the start, which would take long."""

KEPT_PAGES: Final = 256
"""Free pages that stay in the file for what is written next: a megabyte."""

PAGES_A_CHANGE: Final = 128
"""Few enough that no other change notices waiting for them."""

_INCREMENTAL: Final = 2
_LOG = logging.getLogger(__name__)


def prepare(file: Path) -> None:
    """Have the file record where each page belongs, without which it cannot shrink; to be called with no other user.

    A new file gets that at no cost, an existing one by being rewritten once. Where that is not possible now the file
    is left as it is and goes on to work.
    """
    connection = sqlite3.connect(file, isolation_level=None)
    try:
        if connection.execute("PRAGMA auto_vacuum").fetchone()[0] == _INCREMENTAL:
            return
        if file.stat().st_size > LARGEST_CONVERTED_BYTES:
            _LOG.warning(
                "The database file is too large to be rewritten at the start: docs/operators-guide.md says how"
            )
            return
        connection.execute(f"PRAGMA auto_vacuum = {_INCREMENTAL}")
        connection.execute("VACUUM")
    except sqlite3.Error:
        _LOG.warning("The database file could not be rewritten, and keeps its size for now", exc_info=True)
    finally:
        connection.close()


def has_space_to_free(connection: sqlite3.Connection) -> bool:
    """Whether more pages are free than are kept for what comes."""
    return _free_pages(connection) > KEPT_PAGES


def free_some(connection: sqlite3.Connection) -> bool:
    """Cut some free pages off the file, inside a transaction; whether any was."""
    before = _free_pages(connection)
    for _ in range(min(PAGES_A_CHANGE, before - KEPT_PAGES)):
        # With a larger number Python's driver would free one page as well: it steps once through what has no rows.
        connection.execute("PRAGMA incremental_vacuum(1)")
    return _free_pages(connection) < before


def _free_pages(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA freelist_count").fetchone()[0])
