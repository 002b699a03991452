"""Copies of a live SQLite database: opened for reading beside the service, and consistent."""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final

from backend.storage.data_files import lock_named
from backend.storage.dialects.sqlite.database_file import damage, open_to_read, schema_revision
from backend.storage.factory import known_revisions, newest_revision
from deploy.backup.archive import DATABASE, BackupError

_SCRATCH: Final = ".workflow-api-backup-"
_LOCK_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A copy of the database: its bytes, from a file that has no name any more, and what it says about itself."""

    file: BinaryIO
    taken_at: datetime
    schema: str
    deployment_id: str
    runs: int


@contextmanager
def reading(database: Path) -> Iterator[sqlite3.Connection]:
    """Opens a database for reading alone, whether or not a service uses it.

    Raises:
        BackupError: there is none, it cannot be read, or this release does not know its schema.
    """
    if not database.is_file():
        raise BackupError(f"{database.parent} has no database: it is no data folder, or no service has used it yet.")
    try:
        with closing(open_to_read(database, seconds=_LOCK_SECONDS)) as connection:
            require_known(schema_of(connection))
            yield connection
    except sqlite3.Error as error:
        raise BackupError(f"The database {database} cannot be read: {error}.") from error


def schema_of(connection: sqlite3.Connection) -> str:
    """Returns the revision of a database's schema; raises sqlite3.Error where it has none."""
    schema = schema_revision(connection)
    if schema is None:
        raise sqlite3.DatabaseError("it has no schema")
    return schema


def require_known(schema: str) -> None:
    """Raises BackupError for a schema of a later release."""
    if schema not in known_revisions():
        raise BackupError(
            f"The database has schema {schema}, and this release knows none after {newest_revision()}: use a newer one."
        )


@contextmanager
def scratch_folder(beside: Path) -> Iterator[Path]:
    """Makes a folder for files that are to be gone with the process, and removes those that killed ones have left."""
    for left in beside.glob(f"{_SCRATCH}*"):
        with suppress(OSError), _locked(left):
            shutil.rmtree(left)
    folder, handle = _new_locked(beside)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def _new_locked(beside: Path) -> tuple[Path, int]:
    """Makes a folder that is held as long as this process lives, and returns it with its handle."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=beside))
        # Until it is locked another backup takes it for one that was left, and removes it.
        with suppress(FileNotFoundError):
            return folder, lock_named(folder, os.O_RDONLY | os.O_DIRECTORY, wait=True)


def take_snapshot(
    live: sqlite3.Connection, folder: Path, examine: Callable[[sqlite3.Connection], None] | None
) -> Snapshot:
    """Copies a database as it is now, in one read transaction, checks the copy, and has it examined.

    Raises:
        BackupError: the database is damaged.
        sqlite3.Error: it cannot be read, or the copy not be written.
    """
    path = folder / DATABASE
    path.touch(mode=0o600)
    file = path.open("r+b")
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as copy:
            # It is gone with the process: waiting for the disk, several times, would be for nothing.
            copy.execute("PRAGMA synchronous = OFF")
            # What a call has changed before this, and was acknowledged, is in the copy.
            taken_at = datetime.now(UTC)
            live.backup(copy)
            # One file, without a log beside it.
            copy.execute("PRAGMA journal_mode = DELETE")
            require_sound(copy)
            schema = schema_of(copy)
            deployment_id = copy.execute("SELECT deployment_id FROM deployments").fetchone()[0]
            runs = copy.execute("SELECT count(*) FROM runs").fetchone()[0]
            if examine is not None:
                examine(copy)
        path.unlink()
    except BaseException:
        file.close()
        path.unlink(missing_ok=True)
        raise
    return Snapshot(file, taken_at, schema, deployment_id, runs)


def require_sound(connection: sqlite3.Connection) -> None:
    """Raises BackupError where the pages of a database do not fit together."""
    found = damage(connection)
    if found is not None:
        raise BackupError(f"The database is damaged: {found}.")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Holds a folder; raises OSError where another process does."""
    handle = lock_named(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield
    finally:
        os.close(handle)
