"""Opens the embedded database in a data folder that no other process uses, or one on a server."""

import fcntl
import logging
import shutil
import tempfile
from pathlib import Path
from typing import Final, TextIO

from sqlalchemy import create_engine
from sqlalchemy.exc import SQLAlchemyError

from backend.storage.database import Database
from backend.storage.dialects.sqlite import space
from backend.storage.dialects.sqlite.database import SqliteDatabase
from backend.storage.migrate import is_newest_file, schema_digest, upgrade
from backend.storage.private_folder import ForeignOwnerError, make_private, narrow_content

_DATABASE: Final = "workflow-api.sqlite3"
_LOCK: Final = "workflow-api.lock"
_OURS: Final = "workflow-api."

_LOG = logging.getLogger(__name__)


class DataFolderError(Exception):
    """The data folder cannot be used; the message says why, in one sentence."""


def open_postgresql(url: str, connections: int) -> Database:
    """Opens the database on a server, with the newest schema.

    Raises:
        DataFolderError: it cannot be reached or used.
    """
    try:
        from backend.storage.dialects.postgresql.connection import engine_of
        from backend.storage.dialects.postgresql.database import PostgresqlDatabase
    except ImportError:
        raise DataFolderError(
            "PostgreSQL needs the optional part `cluster`: pip install 'workflow-api[cluster]'."
        ) from None
    engine = engine_of(url)
    try:
        upgrade(engine)
    except RuntimeError as error:
        raise DataFolderError(str(error)) from error
    except SQLAlchemyError as error:
        raise DataFolderError(f"The database cannot be used: {' '.join(str(error.__cause__).split())}") from error
    finally:
        engine.dispose()
    return PostgresqlDatabase(url, connections)


class DataFolder:
    """The data folder of one process: locked while it is open, and inaccessible to other users of the machine."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            make_private(path)
            narrow_content(path, _OURS)
            (path / _LOCK).touch(mode=0o600)
            self._lock: TextIO = (path / _LOCK).open("w")
        except ForeignOwnerError as error:
            raise DataFolderError(f"The data folder cannot be used: {error}") from None
        except OSError as error:
            raise DataFolderError(f"The data folder {path} cannot be written: {error.strerror}.") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise DataFolderError(f"The data folder {path} is in use by another workflow-api process.") from None

    def open_database(self, empty_databases: Path | None = None) -> SqliteDatabase:
        """Opens the database with the newest schema.

        A new one is copied from the empty database in the folder `empty_databases`, if one is given; the first copy is
        made there from a database that had all migrations run.
        """
        file = self.path / _DATABASE
        new = not file.exists()
        # Its log and its shared memory get the same mode.
        file.touch(mode=0o600)
        empty = None if empty_databases is None else empty_databases / f"empty-{schema_digest()}.sqlite3"
        if new and empty is not None and empty.is_file():
            shutil.copyfile(empty, file)
        space.prepare(file)
        if not is_newest_file(file):
            engine = create_engine(f"sqlite:///{file}")
            try:
                upgrade(engine)
            except RuntimeError as error:
                raise DataFolderError(str(error)) from error
            finally:
                engine.dispose()
        if new and empty is not None and not empty.is_file():
            _keep_copy(file, empty)
        return SqliteDatabase(file)

    def close(self) -> None:
        """Unlocks the folder for another process."""
        self._lock.close()


def _keep_copy(file: Path, copy: Path) -> None:
    """Copies a database that nobody else has open; where that is not possible the next new one takes longer."""
    try:
        copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=copy.parent, delete=False) as temporary:
            shutil.copyfile(file, temporary.name)
        Path(temporary.name).replace(copy)
    except OSError:
        _LOG.warning("An empty database could not be kept in %s", copy.parent, exc_info=True)
