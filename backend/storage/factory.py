"""Opens the database with the newest schema: the embedded one, in a data folder of one process, or one on a server."""

import os
from pathlib import Path
from typing import Final, TextIO

from sqlalchemy import Engine, create_engine, inspect, text
from sqlalchemy.exc import SQLAlchemyError

from backend.common.optional_parts import CLUSTER
from backend.storage.data_files import ForeignOwnerError, lock_named, make_private, narrow_content
from backend.storage.database import Database
from backend.storage.dialects.sqlite import database_file
from backend.storage.dialects.sqlite.database import SqliteDatabase

_MIGRATING: Final = 7_246_051
_SCRIPTS: Final = Path(__file__).parent / "migrations"


def newest_revision() -> str:
    """Returns the newest revision of the schema, by which the files of the migrations begin."""
    return max(known_revisions())


def known_revisions() -> frozenset[str]:
    """Returns every revision of the schema that this release can use or migrate."""
    return frozenset(path.name.partition("_")[0] for path in _migrations())


def upgrade(engine: Engine) -> None:
    """Runs every missing migration in one transaction.

    Raises:
        RuntimeError: the database was written by a newer release.
    """
    if _is_newest(engine):
        return
    # Imported here, because this import would double the time of a start without migrations.
    from alembic import command
    from alembic.config import Config
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS))
    script = ScriptDirectory.from_config(config)
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            # Another process may start at the same time.
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_MIGRATING})"))
        present = MigrationContext.configure(connection).get_current_revision()
        if present == script.get_current_head():
            return
        if present is not None and present not in {entry.revision for entry in script.walk_revisions()}:
            raise RuntimeError(f"The database has schema {present}, which this release does not know: use a newer one.")
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _migrations() -> list[Path]:
    return list((_SCRIPTS / "versions").glob("[0-9]*_*.py"))


def _is_newest(engine: Engine) -> bool:
    with engine.connect() as connection:
        if not inspect(connection).has_table("alembic_version"):
            return False
        found = connection.execute(text("SELECT version_num FROM alembic_version")).scalars().all()
    return found == [newest_revision()]


DATABASE_FILE: Final = "workflow-api.sqlite3"
LOCK_FILE: Final = "workflow-api.lock"
RESTORING_FILE: Final = "workflow-api.restoring"
"""Empty file that exists from the beginning of a restore to its end."""
_OURS: Final = "workflow-api."


class DataFolderError(Exception):
    """The data folder cannot be used; the message says why, in one sentence."""


def open_postgresql(url: str, connections: int, *, ends_blocking_sessions: bool = False) -> Database:
    """Opens the database on a server, with the newest schema.

    With `ends_blocking_sessions` the database ends sessions of frozen processes while it is open.

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

    A folder whose restore did not end is refused, except for another restore.
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
        # SQLite gives its log and shared memory the mode of the file.
        file.touch(mode=0o600)
        if database_file.prepare(file) != newest_revision():
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
