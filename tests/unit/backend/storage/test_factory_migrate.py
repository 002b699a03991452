import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import alembic.command
import pytest
from alembic.autogenerate import compare_metadata
from alembic.command import downgrade
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, inspect, text
from sqlalchemy.event import listen

import backend.storage.factory
from backend.storage.dialects.postgresql.connection import engine_of
from backend.storage.factory import upgrade
from backend.storage.tables.metadata import METADATA
from tests.support.postgresql import Postgresql

_INDEXES = {
    "sqlite": "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL",
    "postgresql": "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = ANY(:tables)",
}


@pytest.fixture(params=["sqlite", "postgresql"])
def new_engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Engine]]:
    """Makes empty databases."""
    numbers = count()
    with ExitStack() as stack:

        def make() -> Engine:
            if request.param == "sqlite":
                engine = create_engine(f"sqlite:///{tmp_path / f'{next(numbers)}.sqlite3'}")
            else:
                server: Postgresql = request.getfixturevalue("postgresql_server")
                engine = engine_of(stack.enter_context(server.database()))
            stack.callback(engine.dispose)
            return engine

        yield make


@pytest.fixture
def engine(new_engine: Callable[[], Engine]) -> Engine:
    return new_engine()


def indexes(engine: Engine) -> dict[str, str]:
    with engine.connect() as connection:
        given = {"tables": list(METADATA.tables)} if engine.dialect.name == "postgresql" else {}
        found = connection.execute(text(_INDEXES[engine.dialect.name]), given)
        return {name: " ".join(statement.split()) for name, statement in found}


# SQLite's indexes over expressions are compared below alone.
@pytest.mark.filterwarnings("ignore:Skipped unsupported reflection of expression-based index")
@pytest.mark.filterwarnings("ignore:autogenerate skipping metadata-specified expression-based index")
def test_the_migrations_make_the_tables_that_the_code_knows(engine: Engine, new_engine: Callable[[], Engine]) -> None:
    upgrade(engine)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), METADATA) == []
    fresh = new_engine()
    METADATA.create_all(fresh)
    assert indexes(engine) == indexes(fresh)


@pytest.mark.parametrize("new_engine", ["postgresql"], indirect=True)
def test_processes_that_start_at_once_migrate_once(engine: Engine) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: upgrade(engine), range(4)))
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []


def test_migrating_twice_changes_nothing(engine: Engine) -> None:
    upgrade(engine)
    before = indexes(engine)
    upgrade(engine)
    assert indexes(engine) == before


def test_every_migration_can_be_taken_back(engine: Engine) -> None:
    upgrade(engine)
    config = Config()
    config.set_main_option("script_location", str(Path(backend.storage.factory.__file__).parent / "migrations"))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        downgrade(config, "base")
    assert set(inspect(engine).get_table_names()) <= {"alembic_version"}


@pytest.mark.parametrize("new_engine", ["postgresql"], indirect=True)
def test_a_process_of_the_former_release_goes_on_while_another_migrates(engine: Engine) -> None:
    """A migration adds; what is not used any more may only be taken away by the release after the next."""
    config = Config()
    config.set_main_option("script_location", str(Path(backend.storage.factory.__file__).parent / "migrations"))
    first, *later = reversed(list(ScriptDirectory.from_config(config).walk_revisions()))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        alembic.command.upgrade(config, first.revision)
        for revision in later:
            tables = "|".join(set(inspect(connection).get_table_names()) - {"alembic_version"})
            said: list[str] = []
            listen(
                connection, "before_cursor_execute", lambda *about, said=said: said.append(" ".join(about[2].split()))
            )
            alembic.command.upgrade(config, revision.revision)
            assert said[-1].startswith("UPDATE alembic_version")
            # A column that was not there must have a value where nobody gives one.
            changes = re.compile(
                rf"(?:ALTER|DROP) TABLE (?:{tables})\b"
                r"(?! ADD COLUMN (?:(?!.* NOT NULL)|.* DEFAULT )| ALTER COLUMN \w+ DROP NOT NULL)"
                rf"|CREATE UNIQUE INDEX \w+ ON (?:{tables})\b"
            )
            assert [statement for statement in said if changes.match(statement)] == [], revision.revision


def insert(connection: Connection, table: str, **columns: object) -> None:
    names = ", ".join(columns)
    connection.execute(text(f"INSERT INTO {table} ({names}) VALUES (:{names.replace(', ', ', :')})"), columns)


def add_workflow(connection: Connection, *definitions: dict[str, object]) -> None:
    """Adds a workflow with these versions, from 1 on."""
    times = {"created_at": 0, "updated_at": 0}
    newest = {"active_version": len(definitions), "newest_version": len(definitions)}
    named = {"workflow_id": "wf_1", "name": "W", "name_folded": "w", "description": "", "status": "active"}
    insert(connection, "workflows", **named, **newest, **times)
    for version, columns in enumerate(definitions, 1):
        insert(connection, "workflow_versions", workflow_id="wf_1", version=version, created_at=0, **columns)


def test_versions_from_before_get_the_agents_and_environments_of_the_moment(engine: Engine) -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(backend.storage.factory.__file__).parent / "migrations"))
    steps = [
        {"agent": "counter", "environment": "gone"},
        {"agent": "counter", "environment": None},
        {"agent": None, "environment": None},
    ]
    agent = {"resource_id": "agt_1", "version": 3, "definition": "{}", "created_at": 0}
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        alembic.command.upgrade(config, "0007")
        insert(connection, "resources", kind="agent", name="counter", updated_at=0, **agent)
        insert(connection, "resource_versions", **agent)
        add_workflow(connection, {"definition": '{"steps": []}'}, {"definition": json.dumps({"steps": steps})})
    upgrade(engine)
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT * FROM workflow_version_resources ORDER BY kind")).all()
    assert [tuple(row) for row in rows] == [
        ("wf_1", 2, "agent", "counter", "agt_1", 3),
        ("wf_1", 2, "environment", "gone", None, None),
    ]


def test_a_shared_definition_is_copied_where_the_migration_is_taken_back(engine: Engine) -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(backend.storage.factory.__file__).parent / "migrations"))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        alembic.command.upgrade(config, "0009")
        add_workflow(connection, {"definition": "one"}, {"definition": "", "definition_version": 1})
        downgrade(config, "0007")
        rows = connection.execute(text("SELECT version, definition FROM workflow_versions ORDER BY version")).all()
    assert [tuple(row) for row in rows] == [(1, "one"), (2, "one")]


def test_a_database_of_a_newer_release_is_left_alone(engine: Engine) -> None:
    upgrade(engine)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(RuntimeError, match="9999"):
        upgrade(engine)
