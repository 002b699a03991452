"""Brings a database to the newest schema."""

from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, text

_MIGRATING: Final = 7_246_051
_SCRIPTS: Final = Path(__file__).parent / "migrations"


def upgrade(engine: Engine) -> None:
    """Runs every missing migration in one transaction.

    Raises:
        RuntimeError: the database was written by a newer release.
    """
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
