"""Contentions hold what statements need, for as long as they last."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest

from backend.storage.factory import open_postgresql
from tests.faults.contention import TABLES, hold
from tests.faults.databases import sqlite_address
from tests.support.own_postgresql import OwnPostgresql
from tests.support.poll import until

_HELD = "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE application_name = 'contention'"
_HELD_OF_A_TABLE = f"{_HELD} AND relation = '{TABLES[0]}'::regclass AND mode = 'ShareRowExclusiveLock'"
_HELD_OF_A_KEY = f"{_HELD} AND locktype = 'advisory' AND granted"
_READING = f"{_HELD} AND backend_xmin IS NOT NULL AND state = 'idle in transaction'"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with closing(OwnPostgresql()) as server:
        open_postgresql(server.url, 1).close()
        yield server.url


def counted(url: str, query: str) -> int:
    # Connections may be cut.
    with suppress(psycopg.OperationalError), psycopg.connect(url) as observer:
        row = observer.execute(query).fetchone()
        assert row is not None
        return int(row[0])
    return 0


@pytest.mark.parametrize(
    ("kind", "query"),
    [("postgresql table lock", _HELD_OF_A_TABLE), ("postgresql long reader", _READING)],
)
def test_a_session_holds_a_lock_or_a_snapshot_until_the_contention_is_over(url: str, kind: str, query: str) -> None:
    contending = threading.Thread(target=hold, args=(kind, url, 5.0, 0.0))
    contending.start()
    until(lambda: counted(url, query), f"the {kind}")
    contending.join()
    assert counted(url, query) == 0


def test_a_key_that_others_lock_is_locked_once_it_is_free(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as other:

        def is_taken() -> bool:
            # Numbers of 64 bits may be negative.
            other.execute("SELECT pg_try_advisory_lock(-29), pg_sleep(0.05), pg_advisory_unlock(-29)")
            return counted(url, _HELD_OF_A_KEY) > 0

        contending = threading.Thread(target=hold, args=("postgresql advisory locks", url, 5.0, 0.0))
        contending.start()
        until(is_taken, "the key to be locked")
        contending.join()


def test_statements_are_cancelled(url: str) -> None:
    contending = threading.Thread(target=hold, args=("postgresql cancels statements", url, 5.0, 0.0))
    contending.start()
    until(lambda: _is_cancelled(url), "a statement to be cancelled")
    contending.join()


def _is_cancelled(url: str) -> bool:
    with suppress(psycopg.OperationalError), psycopg.connect(url) as session:
        try:
            session.execute("SELECT pg_sleep(1)")
        except psycopg.errors.QueryCanceled:
            return True
    return False


def test_another_process_reads_an_embedded_database(tmp_path: Path) -> None:
    path = tmp_path / "database"
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = wal")
        database.execute("CREATE TABLE runs (run_id TEXT)")
        hold("sqlite long reader", sqlite_address(path), 0.1, 0.0)
