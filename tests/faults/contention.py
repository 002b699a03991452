"""Sessions beside a deployment that hold what its statements need, cancel them, or read for long."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg import sql

from tests.faults.databases import sqlite_path

# The tables that calls, workers and sweeps change most.
TABLES: Final = (
    "runs",
    "segments",
    "steps",
    "events",
    "approvals",
    "outputs",
    "idempotency_records",
    "daily_usage",
    "workers",
    "publications",
    "webhook_deliveries",
    "pending_removals",
)
_LOCK_MODES: Final = ("SHARE ROW EXCLUSIVE", "ACCESS EXCLUSIVE")
_ROWS: Final = 200
_ADVISORY_KEYS: Final = 20
_CANCEL_EVERY_SECONDS: Final = 0.01
# A driver prepares a statement once it has run some times on a connection.
_PREPARED_AFTER_SECONDS: Final = 1.5
_LOOK_EVERY_SECONDS: Final = 0.01
_READER: Final = """
import sqlite3, sys, time
database = sqlite3.connect("file:" + sys.argv[1] + "?mode=ro", uri=True, timeout=30)
database.execute("BEGIN")
database.execute("SELECT count(*) FROM runs").fetchone()
time.sleep(float(sys.argv[2]))
"""


def hold(kind: str, address: str, seconds: float, chance: float) -> None:
    """Contends for a database for so long; `chance` in [0, 1) chooses for what."""
    _KINDS[kind](address, seconds, chance)


def _lock_table(url: str, seconds: float, chance: float) -> None:
    table = TABLES[int(chance * len(TABLES))]
    mode = _LOCK_MODES[int(chance * 97) % len(_LOCK_MODES)]
    lock = sql.SQL(f"LOCK TABLE {{}} IN {mode} MODE").format(sql.Identifier(table))
    with _session(url) as session:
        _cut_connections(session)
        time.sleep(_PREPARED_AFTER_SECONDS)
        _hold_once(session, lock, seconds)


def _lock_rows(url: str, seconds: float, chance: float) -> None:
    table = TABLES[int(chance * len(TABLES))]
    newest = sql.SQL("SELECT 1 FROM {} ORDER BY ctid DESC LIMIT {} FOR UPDATE SKIP LOCKED")
    with _session(url) as session:
        _hold_once(session, newest.format(sql.Identifier(table), _ROWS), seconds)


def _lock_advisory_keys(url: str, seconds: float, _: float) -> None:
    """Takes the keys that sessions are seen to lock, each once it is free."""
    end = time.monotonic() + seconds
    wanted: set[tuple[int, int, int]] = set()
    taken: set[tuple[int, int, int]] = set()
    with _session(url) as session:
        while time.monotonic() < end:
            locked = session.execute(
                "SELECT classid::bigint, objid::bigint, objsubid FROM pg_locks"
                " WHERE locktype = 'advisory' AND granted AND pid <> pg_backend_pid()"
            )
            wanted.update(locked.fetchall()[: max(0, _ADVISORY_KEYS - len(wanted))])
            taken.update(key for key in wanted - taken if _try_advisory_lock(session, *key))
            time.sleep(_LOOK_EVERY_SECONDS)


def _try_advisory_lock(session: psycopg.Connection[Any], high: int, low: int, parts: int) -> bool:
    """Takes a key as PostgreSQL lists it: one number of 64 bits, or two of 32."""
    keys = [_signed(high << 32 | low, 64)] if parts == 1 else [_signed(high, 32), _signed(low, 32)]
    given = sql.SQL(", ").join(map(sql.Literal, keys))
    row = session.execute(sql.SQL("SELECT pg_try_advisory_lock({})").format(given)).fetchone()
    return row is not None and bool(row[0])


def _cancel_statements(url: str, seconds: float, _: float) -> None:
    end = time.monotonic() + seconds
    with _session(url) as session:
        _cut_connections(session)
        while time.monotonic() < end:
            session.execute(
                "SELECT pg_cancel_backend(pid) FROM (SELECT pid FROM pg_stat_activity WHERE state = 'active'"
                " AND backend_type = 'client backend' AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1) AS one"
            )
            time.sleep(_CANCEL_EVERY_SECONDS)


def _read_postgresql(url: str, seconds: float, _: float) -> None:
    with _session(url) as session, session.transaction():
        session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        session.execute("SELECT count(*) FROM runs")
        time.sleep(seconds)


def _read_sqlite(address: str, seconds: float, _: float) -> None:
    command = [sys.executable, "-c", _READER, sqlite_path(address), str(seconds)]
    subprocess.run(command, check=True, timeout=seconds + 60)


_KINDS: Final[Mapping[str, Callable[[str, float, float], None]]] = {
    "postgresql table lock": _lock_table,
    "postgresql row locks": _lock_rows,
    "postgresql advisory locks": _lock_advisory_keys,
    "postgresql cancels statements": _cancel_statements,
    "postgresql long reader": _read_postgresql,
    "sqlite long reader": _read_sqlite,
}


@contextmanager
def _session(url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(url, autocommit=True, application_name="contention") as session:
        session.execute("SET lock_timeout = '30s'")
        yield session


def _cut_connections(session: psycopg.Connection[Any]) -> None:
    """Cuts those of the deployment, so that its statements are prepared again: while others hold what they need."""
    session.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )


def _hold_once(session: psycopg.Connection[Any], lock: sql.Composed, seconds: float) -> None:
    """Takes a lock, again if that ends in a deadlock, and holds it."""
    while True:
        try:
            with session.transaction():
                session.execute(lock)
                time.sleep(seconds)
        except (psycopg.errors.DeadlockDetected, psycopg.errors.LockNotAvailable):
            continue
        return


def _signed(number: int, bits: int) -> int:
    return number - (1 << bits) if number >> (bits - 1) else number
