"""Brings a database to the newest schema."""

from pathlib import Path
from typing import Final

from sqlalchemy import Engine, inspect, text

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
    # Half of what a start without migrations takes would be this import.
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
