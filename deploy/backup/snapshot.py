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
    """A copy of the database: an open file without a name, its time, and figures read from the copy."""

    file: BinaryIO
    taken_at: datetime
    schema: str
    deployment_id: str
    runs: int


@contextmanager
def reading(database: Path) -> Iterator[sqlite3.Connection]:
    """Opens a database for reading alone, whether or not a service uses it.

    Raises:
        BackupError: there is no database, it cannot be read, or this release does not know its schema.
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
    """Returns the revision of a database's schema; raises sqlite3.Error if it has none."""
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
def scratch_folder(parent: Path) -> Iterator[Path]:
    """Makes a folder for files that end with the process, and removes such folders of killed processes."""
    for leftover in parent.glob(f"{_SCRATCH}*"):
        with suppress(OSError), _locked(leftover):
            shutil.rmtree(leftover)
    folder, handle = _new_locked(parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def _new_locked(parent: Path) -> tuple[Path, int]:
    """Makes a folder that is locked as long as this process lives, and returns it with its handle."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=parent))
        # Until the folder is locked, another backup may take it for a leftover and remove it.
        with suppress(FileNotFoundError):
            return folder, lock_named(folder, os.O_RDONLY | os.O_DIRECTORY, wait=True)


def take_snapshot(
    live: sqlite3.Connection, folder: Path, examine: Callable[[sqlite3.Connection], None] | None
) -> Snapshot:
    """Copies a database in one read transaction, checks the copy, and passes it to `examine`.

    Raises:
        BackupError: the database is damaged.
        sqlite3.Error: it cannot be read, or the copy not be written.
    """
    path = folder / DATABASE
    path.touch(mode=0o600)
    file = path.open("r+b")
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as copy:
            # The copy ends with the process, so no write needs to wait for the disk.
            copy.execute("PRAGMA synchronous = OFF")
            # Changes acknowledged before this moment are in the copy.
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
    """Raises BackupError if the pages of a database do not fit together."""
    found = damage(connection)
    if found is not None:
        raise BackupError(f"The database is damaged: {found}.")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Locks a folder; raises OSError if another process has locked it."""
    handle = lock_named(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield
    finally:
        os.close(handle)
