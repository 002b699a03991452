"""Hot statements are served by their indexes, whatever else is in the tables."""

import sqlite3
from collections.abc import Iterator

import pytest
from sqlalchemy import create_engine
from sqlalchemy.pool import StaticPool

from backend.runs.start import sql
from backend.storage.dialects.sqlite.dialect import Dialect
from backend.storage.statements import Statement
from backend.storage.tables.metadata import METADATA


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    engine = create_engine("sqlite://", poolclass=StaticPool)
    METADATA.create_all(engine)
    raw = engine.raw_connection()
    yield raw.driver_connection  # type: ignore[misc]  # the driver is known
    raw.close()
    engine.dispose()


def plan(connection: sqlite3.Connection, statement: Statement, *names: str) -> str:
    text, arguments = statement.bind(Dialect(paramstyle="qmark"), dict.fromkeys(names, 1))
    return "\n".join(row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {text}", arguments))


def test_the_facts_of_a_start_are_points_and_a_count_over_runs_in_flight(connection: sqlite3.Connection) -> None:
    steps = plan(connection, sql._FACTS, "of_key_id", "of_idempotency_key", "of_day")
    assert "COVERING INDEX ix_runs_in_flight (key_id=? AND status=?)" in steps
    one_row = ("SCAN deployments", "SCAN resource_revision")
    assert [step for step in steps.splitlines() if "SCAN" in step and step not in one_row] == []
