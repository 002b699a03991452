"""The file of an SQLite database: schema, free pages, examination, connections, and emptying its write-ahead log.

A new file gets the newest schema as one script, which takes a hundredth of the processor time of all migrations:
2 ms, and without the import of alembic. A test compares what both make.
"""

import logging
import sqlite3
from contextlib import closing
from pathlib import Path
from time import monotonic
from typing import Final
from urllib.parse import quote

from sqlalchemy import FromClause
from sqlalchemy.dialects.sqlite.base import SQLiteCompiler, SQLiteDialect

from telemetry.outages import RepeatedWork

NEWEST: Final = Path(__file__).parents[2] / "migrations" / "newest.sql"
"""Makes the newest schema in an empty database; `scripts/empty_schema.py` writes it."""

LARGEST_CONVERTED_BYTES: Final = 256 * 1024 * 1024
"""The largest file of an earlier release that is rewritten at the start; a larger one would take long."""

KEPT_PAGES: Final = 256
"""Free pages that stay in the file for the next changes: a megabyte."""

PAGES_A_CHANGE: Final = 128
"""Pages that one change frees; few enough that no other change waits noticeably."""

INCREMENTAL: Final = 2
"""The mode of SQLite's `auto_vacuum` in which pages are freed on request."""

_LOG = logging.getLogger(__name__)


def prepare(file: Path) -> str | None:
    """Prepares a file for use, a new one with its schema; it must have no other user.

    Returns:
        The revision of its schema, or None where it has none or cannot be read.
    """
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        try:
            if connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,):
                # Before its first table, the file records where each page belongs without being rewritten.
                script = f"PRAGMA auto_vacuum = {INCREMENTAL};\nBEGIN;\n{NEWEST.read_text(encoding='utf-8')}COMMIT;"
                connection.executescript(script)
            else:
                enable_incremental_vacuum(connection, file)
            found = connection.execute("SELECT version_num FROM alembic_version").fetchall()
        except sqlite3.Error:
            # The migrations report why the file cannot be read.
            return None
    return found[0][0] if len(found) == 1 else None


def enable_incremental_vacuum(connection: sqlite3.Connection, file: Path) -> None:
    """Makes the file record where each page belongs, without which it cannot shrink; it must have no other user.

    This is free for a new file; an existing one is rewritten once. If that is not possible now, the file is left as it
    is and keeps working.
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
        # A larger number would free one page as well, because Python's driver steps once through a statement without
        # rows.
        connection.execute("PRAGMA incremental_vacuum(1)")
    return _free_pages(connection) < before


def _free_pages(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA freelist_count").fetchone()[0])


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
    """Returns a description of damaged pages of a database, one line of at most 200 characters; None if it is sound.

    Raises:
        sqlite3.Error: it cannot be read.
    """
    found = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    return None if found == "ok" else " ".join(found.split())[:200]


BUSY_MS: Final = 10_000
"""Time for which a statement waits for the locks of others."""

_PRAGMAS: Final = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    f"PRAGMA busy_timeout = {BUSY_MS}",
    "PRAGMA temp_store = MEMORY",
    # Deleted content is overwritten, not only unlinked from its page.
    "PRAGMA secure_delete = ON",
)

# A reader of large pages must not hold up every writer.
_LOG_BUSY_MS: Final = 250
_PAUSE_SECONDS: Final = 5.0
_LONG_READER: Final = TimeoutError("a long reader is in the way, such as a backup or an open sqlite3 shell")


def connect(path: Path) -> sqlite3.Connection:
    """Opens a connection that commits each statement by itself unless a transaction is begun."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=512, timeout=10)
    for pragma in _PRAGMAS:
        connection.execute(pragma)
    return connection


class _Compiler(SQLiteCompiler):
    """SQLAlchemy's compiler, which leaves hints for SQLite out, with these hints."""

    def get_from_hint_text(self, table: FromClause, text: str | None) -> str | None:  # noqa: ARG002 - the base's
        return text


class Dialect(SQLiteDialect):
    """SQLite's dialect, with `INDEXED BY` for a select that has it as a hint."""

    name = "sqlite"
    statement_compiler = _Compiler


class LogTruncation:
    """Empties the write-ahead log of deleted content; retries after a pause if a reader blocks it. For one thread.

    An attempt delays commits by up to `_LOG_BUSY_MS`, so it is not made after each commit.
    """

    def __init__(self, *, wanted: bool) -> None:
        self.wanted = wanted
        """True if the log is to be emptied; the writer checks nothing else after a commit that erases nothing."""
        self._due = monotonic()
        self._blocked = False
        self._attempts = RepeatedWork(
            _LOG,
            "Erased data is still in the files of the database, whose write-ahead log cannot be emptied now",
            "The write-ahead log of the database was emptied of erased data",
        )

    def request(self) -> None:
        """Requests that the log be emptied, at once unless an attempt has just failed."""
        if not self.wanted:
            self.wanted, self._due = True, monotonic()

    def postpone(self) -> None:
        """Puts a requested attempt off."""
        self._due = monotonic() + _PAUSE_SECONDS

    def seconds_left(self) -> float:
        """Returns the time until the next requested attempt."""
        return max(0.0, self._due - monotonic())

    def attempt(self, connection: sqlite3.Connection, *, early: bool = False) -> None:
        """Empties the log if an attempt is due, or `early`."""
        if self._due > monotonic() and not early:
            return
        try:
            blocked = _is_blocked(connection)
        except sqlite3.Error as error:
            # The commits hold all the same, and the writer must live on.
            self._attempts.failed(error)
            self.postpone()
            return
        if not blocked:
            self.wanted = False
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
