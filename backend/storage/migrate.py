"""Brings a database to the newest schema."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine

_SCRIPTS = Path(__file__).parent / "migrations"


def upgrade(engine: Engine) -> None:
    """Runs every migration that the database has not seen, in one go; does nothing when there is none.

    Raises:
        RuntimeError: the database was written by a newer release.
    """
    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS))
    script = ScriptDirectory.from_config(config)
    with engine.begin() as connection:
        present = MigrationContext.configure(connection).get_current_revision()
        if present == script.get_current_head():
            return
        if present is not None and present not in {entry.revision for entry in script.walk_revisions()}:
            raise RuntimeError(f"The database has schema {present}, which this release does not know: use a newer one.")
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
