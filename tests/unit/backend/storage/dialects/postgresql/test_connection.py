"""A process that is frozen within a transaction does not hold up the others for ever."""

import logging
from collections.abc import Iterator
from contextlib import suppress

import psycopg
import pytest

from backend.storage.database import OutcomeUnknownError
from backend.storage.dialects.postgresql.connection import DatabaseTimeouts
from backend.storage.dialects.postgresql.database import PostgresqlDatabase
from tests.support.poll import until
from tests.unit.backend.storage.dialects.postgresql.notes import ADD, HeldChange, notes


@pytest.fixture
def watching(url: str) -> Iterator[PostgresqlDatabase]:
    watching = PostgresqlDatabase(url, 2, DatabaseTimeouts(blocking_seconds=1))
    watching.end_blocking_sessions()
    yield watching
    watching.close()


def idle_in_transaction(url: str) -> int:
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'workflow-api'"
            " AND datname = current_database() AND state = 'idle in transaction'"
        ).fetchone()
    return found[0] if found else 0


def thaw(frozen: HeldChange) -> None:
    # It learns at its commit that its session is gone.
    with suppress(OutcomeUnknownError):
        frozen.end()


@pytest.mark.parametrize(("held", "wanted"), [(None, "key 1"), ("key 1", None), ("key 1", "key 1")])
def test_a_change_waits_no_longer_for_one_that_does_nothing(
    url: str,
    database: PostgresqlDatabase,
    watching: PostgresqlDatabase,
    caplog: pytest.LogCaptureFixture,
    held: str | None,
    wanted: str | None,
) -> None:
    frozen = HeldChange(lambda work: database.write(work, lock_key=held))
    try:
        until(lambda: frozen.begun, "the change that does nothing")
        with caplog.at_level(logging.WARNING, "backend.storage.dialects.postgresql.connection"):
            watching.write(lambda tx: tx.run(ADD, number=1, text="text"), lock_key=wanted)
            until(lambda: "was ended: others waited for its locks" in caplog.text, "the line of the log")
        assert notes(watching) == {1: "text"}
    finally:
        thaw(frozen)


def test_a_session_that_nobody_waits_for_stays(
    url: str, database: PostgresqlDatabase, watching: PostgresqlDatabase
) -> None:
    other = HeldChange(lambda work: database.write(work, lock_key="key 2"))
    frozen = HeldChange(lambda work: database.write(work, lock_key="key 1"))
    try:
        until(lambda: other.begun and frozen.begun, "both changes")
        watching.write(lambda tx: tx.run(ADD, number=1, text="text"), lock_key="key 1")
        assert idle_in_transaction(url) == 1
    finally:
        thaw(frozen)
        other.end()
