"""Opens the embedded database in a data folder that no other process uses, or one on a server."""

import os
from pathlib import Path
from typing import Final, TextIO

from sqlalchemy import create_engine
from sqlalchemy.exc import SQLAlchemyError

from backend.optional_parts import CLUSTER
from backend.storage.database import Database
from backend.storage.dialects.sqlite import schema
from backend.storage.dialects.sqlite.database import SqliteDatabase
from backend.storage.file_locks import lock_named
from backend.storage.migrate import newest_revision, upgrade
from backend.storage.private_folder import ForeignOwnerError, make_private, narrow_content

DATABASE_FILE: Final = "workflow-api.sqlite3"
LOCK_FILE: Final = "workflow-api.lock"
RESTORING_FILE: Final = "workflow-api.restoring"
"""Is there from the beginning of a restore to its end; empty."""
_OURS: Final = "workflow-api."


class DataFolderError(Exception):
    """The data folder cannot be used; the message says why, in one sentence."""


def open_postgresql(url: str, connections: int, *, ends_blocking_sessions: bool = False) -> Database:
    """Opens the database on a server, with the newest schema.

    With `ends_blocking_sessions` it ends sessions of frozen processes meanwhile.

    Raises:
        DataFolderError: it cannot be reached or used.
    """
    try:
        from backend.storage.dialects.postgresql.connection import engine_of
        from backend.storage.dialects.postgresql.database import PostgresqlDatabase
    except ImportError:
        raise DataFolderError(f"PostgreSQL cannot be used: {CLUSTER.not_installed}.") from None
    engine = engine_of(url)
    try:
        upgrade(engine)
    except RuntimeError as error:
        raise DataFolderError(str(error)) from error
    except SQLAlchemyError as error:
        raise DataFolderError(f"The database cannot be used: {' '.join(str(error.__cause__).split())}") from error
    finally:
        engine.dispose()
    database = PostgresqlDatabase(url, connections)
    if ends_blocking_sessions:
        database.end_blocking_sessions()
    return database


class DataFolder:
    """The data folder of one process: locked while it is open, and inaccessible to other users of the machine.

    One whose restore did not end is refused, but for another restore.
    """

    def __init__(self, path: Path, *, to_restore: bool = False) -> None:
        self.path = path
        try:
            make_private(path)
            narrow_content(path, _OURS)
            self._lock: TextIO = os.fdopen(lock_named(path / LOCK_FILE, os.O_RDWR | os.O_CREAT), "w")
        except ForeignOwnerError as error:
            raise DataFolderError(f"The data folder cannot be used: {error}") from None
        except BlockingIOError:
            raise DataFolderError(f"The data folder {path} is in use by another workflow-api process.") from None
        except OSError as error:
            raise DataFolderError(f"The data folder {path} cannot be written: {error.strerror}.") from error
        if not to_restore and (path / RESTORING_FILE).exists():
            self._lock.close()
            raise DataFolderError(f"The data folder {path} has half of a backup: `workflow-api restore` it again.")

    def open_database(self) -> SqliteDatabase:
        """Opens the database with the newest schema."""
        file = self.path / DATABASE_FILE
        # Its log and its shared memory get the same mode.
        file.touch(mode=0o600)
        if schema.prepare(file) != newest_revision():
            engine = create_engine(f"sqlite:///{file}")
            try:
                upgrade(engine)
            except RuntimeError as error:
                raise DataFolderError(str(error)) from error
            finally:
                engine.dispose()
        return SqliteDatabase(file)

    def close(self) -> None:
        """Unlocks the folder for another process."""
        self._lock.close()
