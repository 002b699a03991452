"""Entries of the queue on PostgreSQL are kept for an hour, and those of open segments for longer."""

import time
from collections.abc import Iterator

import psycopg
import pytest
from dbos import DBOSClient, run_dbos_database_migrations
from psycopg.errors import InsufficientPrivilege
from sqlalchemy.exc import ProgrammingError

from backend.common.clock import HOUR_MS
from backend.runtime.engines import dbos
from backend.runtime.engines.dbos import DbosBackend
from backend.runtime.scheduling import sql
from tests.services.runtime.conftest import RuntimeWorld, agent_step
from tests.support.postgresql import Postgresql


@pytest.fixture
def url(postgresql_server: Postgresql) -> Iterator[str]:
    with postgresql_server.database() as url:
        yield url


@pytest.fixture
def queue(url: str) -> Iterator[DbosBackend]:
    queue = DbosBackend(url)
    yield queue
    queue.stop()


@pytest.fixture
def later() -> int:
    return round(time.time() * 1_000) + HOUR_MS


def always() -> bool:
    return True


def enter(url: str, segment_id: str, dispatch: int) -> None:
    """Makes an entry, with which nothing happens."""
    client = DBOSClient(system_database_url=url, application_name="workflow-api")
    client.enqueue(
        {"queue_name": "none", "workflow_name": "segment", "workflow_id": f"{segment_id}:{dispatch}"}, segment_id
    )
    client.destroy()


def kept(url: str) -> list[str]:
    """The ids of the entries, each of which has an input."""
    with psycopg.connect(url) as connection:
        entries, inputs = (
            [row[0] for row in connection.execute(f"SELECT workflow_uuid FROM dbos.{table} ORDER BY 1")]
            for table in ("workflow_status", "workflow_input")
        )
    assert entries == inputs
    return entries


def test_entries_of_open_segments_are_kept_and_all_others_removed(
    url: str, queue: DbosBackend, later: int, idle_world: RuntimeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dbos, "PURGED_AT_ONCE", 2)
    run_dbos_database_migrations(url)
    idle_world.run("Waits", [agent_step("main")])
    (waiting,) = idle_world.services.database.read(sql.open_ids)
    for entry in (("first", 1), (waiting, 1), ("second", 1), (waiting, 2), ("first", 2), ("third", 1)):
        enter(url, *entry)
    queue.purge(later, idle_world.services.database.read(sql.open_ids), always)
    assert kept(url) == [f"{waiting}:1", f"{waiting}:2"]
    queue.purge(later, frozenset(), always)
    assert kept(url) == []


def test_entries_that_are_not_old_enough_are_kept(url: str, queue: DbosBackend, later: int) -> None:
    run_dbos_database_migrations(url)
    enter(url, "ended", 1)
    queue.purge(later - 2 * HOUR_MS, frozenset(), always)
    assert kept(url) == ["ended:1"]


def test_there_is_nothing_to_purge_before_the_first_worker(queue: DbosBackend, later: int) -> None:
    queue.purge(later, frozenset(), always)


def test_a_purge_that_may_not_read_the_queue_fails(url: str, later: int) -> None:
    run_dbos_database_migrations(url)
    with psycopg.connect(url) as connection:
        connection.execute("CREATE ROLE queue_stranger LOGIN")
    try:
        queue = DbosBackend(url.replace("://postgres@", "://queue_stranger@"))
        with pytest.raises(ProgrammingError) as failure:
            queue.purge(later, frozenset(), always)
        assert isinstance(failure.value.orig, InsufficientPrivilege)
        queue.stop()
    finally:
        with psycopg.connect(url) as connection:
            connection.execute("DROP ROLE queue_stranger")


def test_a_purge_ends_where_it_may_not_go_on(url: str, queue: DbosBackend, later: int) -> None:
    run_dbos_database_migrations(url)
    enter(url, "ended", 1)
    queue.purge(later, frozenset(), lambda: False)
    assert kept(url) == ["ended:1"]
