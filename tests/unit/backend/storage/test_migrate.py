from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.command import downgrade
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Engine, create_engine, inspect, text

import backend.storage.migrate
from backend.storage.migrate import upgrade
from backend.storage.tables.metadata import METADATA


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return create_engine(f"sqlite:///{tmp_path / 'schema.sqlite3'}")


def indexes(engine: Engine) -> dict[str, str]:
    with engine.connect() as connection:
        found = connection.execute(text("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"))
        return {name: " ".join(statement.split()) for name, statement in found}


def test_the_migrations_make_the_tables_that_the_code_knows(engine: Engine, tmp_path: Path) -> None:
    upgrade(engine)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), METADATA) == []
    fresh = create_engine(f"sqlite:///{tmp_path / 'fresh.sqlite3'}")
    METADATA.create_all(fresh)
    assert indexes(engine) == indexes(fresh)


def test_migrating_twice_changes_nothing(engine: Engine) -> None:
    upgrade(engine)
    before = indexes(engine)
    upgrade(engine)
    assert indexes(engine) == before


def test_every_migration_can_be_taken_back(engine: Engine) -> None:
    upgrade(engine)
    config = Config()
    config.set_main_option("script_location", str(Path(backend.storage.migrate.__file__).parent / "migrations"))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        downgrade(config, "base")
    assert set(inspect(engine).get_table_names()) <= {"alembic_version"}


def test_a_database_of_a_newer_release_is_left_alone(engine: Engine) -> None:
    upgrade(engine)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(RuntimeError, match="9999"):
        upgrade(engine)
