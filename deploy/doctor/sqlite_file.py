"""Checks of the embedded database: pages, schema and log, read beside the service that uses it."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from backend.storage.dialects.sqlite import database_file
from backend.storage.dialects.sqlite.database_file import damage, open_to_read, schema_revision
from backend.storage.factory import DATABASE_FILE
from deploy.doctor.examination import FAR_SECONDS, ExaminedPart, Finding, Outcome, failed, not_applicable, ok, warning
from deploy.doctor.software import needed_parts, schema_check

_CHECK_SECONDS: Final = 60.0
_LOCK_SECONDS: Final = 10.0
_LARGE_LOG_BYTES: Final = 256 * 1024 * 1024
_STEPS_BETWEEN_LOOKS: Final = 100_000
_RESTORE: Final = "Restore a backup: `workflow-api restore FILE --data DIR --force`."


def check_sqlite(examined: ExaminedPart) -> Iterator[Finding]:
    """Checks the database's file, without a change of it."""
    file = examined.data / DATABASE_FILE
    if not file.exists():
        yield not_applicable("database", f"{file} is not there yet; the first start makes it.")
        return
    if not file.stat().st_size:
        yield not_applicable("database", f"{file} is empty; the first start makes its tables.")
        return
    try:
        with closing(open_read_only(file)) as connection:
            yield from _findings(connection, file)
    except sqlite3.Error as error:
        yield failed("database", f"{file} cannot be read: {error}.", _RESTORE)


def open_read_only(file: Path) -> sqlite3.Connection:
    """Opens the database file read-only, also while the service uses it."""
    # A file without a log is not in use, so it is opened without making even the log's index.
    return open_to_read(file, seconds=_LOCK_SECONDS, immutable=not file.with_name(f"{file.name}-wal").exists())


def _findings(connection: sqlite3.Connection, file: Path) -> Iterator[Finding]:
    pages = _pages(connection, file)
    yield pages
    if pages.outcome is Outcome.FAILED:
        return
    schema = schema_revision(connection)
    if schema is None:
        yield failed("schema", f"{file} is no database of this service: it has no schema.", _RESTORE)
        return
    finding = schema_check(schema)
    yield finding
    mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
    log = file.with_name(f"{file.name}-wal")
    if log.exists() and log.stat().st_size > _LARGE_LOG_BYTES:
        size = log.stat().st_size / 1e6
        message = f"The write-ahead log has {size:,.0f} MB, and erased data may still be in it."
        yield warning("journal", message, "End what reads the database for long, such as a shell of sqlite3.")
    elif mode not in {"wal", "delete"}:
        yield warning("journal", f"The journal mode is {mode}.", "End what has changed it; the next start sets wal.")
    else:
        yield ok("journal", f"The journal mode is {mode}, synchronous commits are set by the service.")
    if connection.execute("PRAGMA auto_vacuum").fetchone()[0] != database_file.INCREMENTAL:
        yield warning(
            "database space",
            "The file does not shrink, for an earlier release has made it.",
            "Convert it as docs/operators-guide.md says under 'Disk space of the embedded database'.",
        )
    if finding.outcome is Outcome.OK:
        yield from needed_parts(connection.execute)
    yield from _clock(connection)


def _pages(connection: sqlite3.Connection, file: Path) -> Finding:
    ends = time.monotonic() + _CHECK_SECONDS
    connection.set_progress_handler(lambda: time.monotonic() > ends, _STEPS_BETWEEN_LOOKS)
    size = f"{file.stat().st_size / 1e6:,.1f} MB"
    try:
        found = damage(connection)
    except sqlite3.OperationalError as error:
        if str(error) != "interrupted":
            raise
        return warning(
            "database",
            f"{file} ({size}) could not be checked within {_CHECK_SECONDS:g} seconds.",
            "Check it when the machine is idle; every backup checks it too.",
        )
    finally:
        connection.set_progress_handler(None, 0)
    if found is not None:
        return failed("database", f"{file} is damaged: {found}.", _RESTORE)
    return ok("database", f"{file} ({size}) can be read, and its pages fit together.")


def _clock(connection: sqlite3.Connection) -> Iterator[Finding]:
    newest = connection.execute("SELECT max(at) FROM audit_records").fetchone()[0]
    if newest is not None and newest / 1000 > time.time() + FAR_SECONDS:
        yield warning(
            "clock",
            f"The newest record of the audit trail is {newest / 1000 - time.time():,.0f} seconds in the future.",
            "Set this machine's clock, as with chrony or systemd-timesyncd.",
        )
    else:
        yield ok("clock", "No record of the audit trail is in the future.")
