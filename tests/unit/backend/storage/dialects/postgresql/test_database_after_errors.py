"""Errors of statements end with the call that met them: later calls and other processes do not notice."""

import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from threading import Event

import psycopg
import pytest
from sqlalchemy import bindparam

from backend.storage.database import ClaimedError, DatabaseUnavailableError, Tx
from backend.storage.dialects.postgresql.connection import DatabaseTimeouts
from backend.storage.dialects.postgresql.database import PostgresqlDatabase
from backend.storage.dialects.postgresql.transaction import lock_number
from backend.storage.statements import Query, select_row
from tests.support.poll import until
from tests.unit.backend.storage.dialects.postgresql.notes import (
    ADD,
    ALL,
    NOTES,
    SESSION,
    SET,
    HeldChange,
    Note,
    add,
    add_once,
    notes,
)

# psycopg prepares a statement at the sixth time.
USES_UNTIL_PREPARED = 6
CONNECTIONS = 10
ONE = Query(Note, select_row(Note, NOTES).where(NOTES.c.number == bindparam("of_number")))
# Unnoticed by the driver, which would forget its prepared statements at a plain DEALLOCATE ALL.
FORGET_PREPARED = "DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$"


def change_and_read(tx: Tx) -> None:
    tx.enqueue(SET, of_number=1, new_text="text")
    tx.all(ALL)
    tx.enqueue(SET, of_number=2, new_text="text")


def commit_with_changes(tx: Tx) -> None:
    tx.many(SET, [{"of_number": number, "new_text": "text"} for number in (1, 2)])


USES: dict[str, Callable[[PostgresqlDatabase], object]] = {
    "read": lambda database: database.read(lambda tx: tx.all(ALL)),
    "each": lambda database: database.read(lambda tx: tx.each(ONE, [{"of_number": 1}, {"of_number": 2}])),
    "snapshot": lambda database: database.snapshot(lambda tx: (tx.all(ALL), tx.first(ONE, of_number=1))),
    "write": lambda database: database.write(change_and_read, lock_key="key 1"),
    "commit": lambda database: database.write(commit_with_changes),
    "single round trip": lambda database: add_once(database, 1),
}


@pytest.fixture
def impatient(url: str, database: PostgresqlDatabase) -> Iterator[PostgresqlDatabase]:
    """A database with one connection, whose statements hardly wait for locks."""
    impatient = PostgresqlDatabase(url, 1, DatabaseTimeouts(lock_ms=30))
    yield impatient
    impatient.close()


@contextmanager
def stalled(url: str) -> Iterator[None]:
    """While it lasts, every statement that reads or changes notes waits, as does every change for its lock."""
    with psycopg.connect(url) as connection:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [lock_number("everything")])
        connection.execute("LOCK TABLE notes")
        yield


def sessions_in_transactions(url: str) -> list[tuple[str, str]]:
    with psycopg.connect(url) as connection:
        return connection.execute(
            "SELECT state, query FROM pg_stat_activity WHERE application_name = 'workflow-api'"
            " AND datname = current_database() AND state NOT IN ('idle', 'active')"
        ).fetchall()


@pytest.mark.parametrize("stalled_use", range(1, USES_UNTIL_PREPARED + 3))
@pytest.mark.parametrize("use", USES)
def test_a_stall_at_any_use_of_a_statement_fails_no_later_use(
    url: str, impatient: PostgresqlDatabase, use: str, stalled_use: int
) -> None:
    # After a rollback before anything is prepared, psycopg forgets nothing at later rollbacks.
    with pytest.raises(ZeroDivisionError):
        impatient.write(lambda tx: len(tx.all(ALL)) / 0)
    for _ in range(1, stalled_use):
        USES[use](impatient)
    with stalled(url), pytest.raises(DatabaseUnavailableError, match="timeout"):
        USES[use](impatient)
    assert sessions_in_transactions(url) == []
    for _ in range(USES_UNTIL_PREPARED + 2):
        USES[use](impatient)


@pytest.mark.parametrize(
    ("timeouts", "stall_seconds"),
    [
        (DatabaseTimeouts(lock_ms=50, pool_seconds=60), 0.1),
        (DatabaseTimeouts(statement_ms=1_000, pool_seconds=60), 1.1),
    ],
    ids=["lock time-outs", "statement time-outs"],
)
@pytest.mark.usefixtures("database")
def test_no_call_fails_after_stalls_at_random_statements(
    url: str, timeouts: DatabaseTimeouts, stall_seconds: float
) -> None:
    contended = PostgresqlDatabase(url, CONNECTIONS, timeouts)
    ended = Event()

    def call(seed: int) -> int:
        chance, failed = random.Random(seed), 0
        while not ended.is_set():
            try:
                chance.choice(list(USES.values()))(contended)
            except DatabaseUnavailableError:
                failed += 1
            except ClaimedError:
                pass
        return failed

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        calls = [pool.submit(call, seed) for seed in range(CONNECTIONS)]
        chance = random.Random(CONNECTIONS)
        for _ in range(4):
            ended.wait(chance.random() / 4)
            with stalled(url):
                ended.wait(stall_seconds)
        ended.set()
        assert sum(one.result(60) for one in calls) > 0
    # Every connection gets its turn: the pool gives the one that came back last.
    held: list[HeldChange] = []
    for _ in range(CONNECTIONS):
        for use in USES.values():
            use(contended)
        held.append(HeldChange(contended.read))
        until(lambda: held[-1].begun, "one more connection in use")
    for one in held:
        one.end()
    contended.close()


@pytest.mark.parametrize("use", USES)
def test_an_unknown_prepared_statement_counts_as_a_lost_connection(impatient: PostgresqlDatabase, use: str) -> None:
    for _ in range(USES_UNTIL_PREPARED):
        USES[use](impatient)
    pid = impatient.read(lambda tx: tx.scalar(SESSION))
    impatient.read(lambda tx: tx.connection.execute(FORGET_PREPARED))
    USES[use](impatient)
    assert impatient.read(lambda tx: tx.scalar(SESSION)) != pid


def test_a_connection_that_work_left_in_a_transaction_is_not_used_again(
    url: str, impatient: PostgresqlDatabase
) -> None:
    impatient.read(lambda tx: tx.connection.execute("BEGIN"))
    until(lambda: sessions_in_transactions(url) == [], "the end of the transaction")
    impatient.read(lambda tx: tx.connection.execute("BEGIN READ ONLY"))
    add(impatient, 1)
    assert notes(impatient) == {1: "text"}


def test_a_change_that_conceals_the_error_of_a_statement_is_not_reported_as_made(
    impatient: PostgresqlDatabase,
) -> None:
    def change(tx: Tx) -> None:
        tx.run(ADD, number=1, text="text")
        with suppress(psycopg.Error):
            tx.run(ADD, number=1, text="the same number")

    with pytest.raises(DatabaseUnavailableError):
        impatient.write(change)
    assert notes(impatient) == {}


def test_refused_work_leaves_its_connection_idle_and_in_use(url: str, impatient: PostgresqlDatabase) -> None:
    pid = impatient.read(lambda tx: tx.scalar(SESSION))
    other = PostgresqlDatabase(url, 1)
    held = HeldChange(lambda work: other.write(work, lock_key="else", claim="k"))
    until(lambda: held.begun, "the first change")
    with pytest.raises(ClaimedError):
        add_once(impatient, 1)
    with pytest.raises(ClaimedError):
        impatient.write(lambda tx: tx.all(ALL), lock_key="key 1", claim="k")
    held.end()
    for use in (impatient.read, impatient.snapshot, impatient.write):
        with pytest.raises(ZeroDivisionError):
            use(lambda tx: len(tx.all(ALL)) / 0)
    assert sessions_in_transactions(url) == []
    assert impatient.read(lambda tx: tx.scalar(SESSION)) == pid
    other.close()


@pytest.mark.parametrize("error", [LookupError, psycopg.OperationalError])
def test_a_held_name_is_released_when_its_holder_fails(
    url: str, database: PostgresqlDatabase, error: type[Exception]
) -> None:
    def fail_holding() -> None:
        with database.try_advisory_lock("name") as mine:
            assert mine
            raise error

    other = PostgresqlDatabase(url, 1)
    with pytest.raises(error):
        fail_holding()
    with other.try_advisory_lock("name") as theirs:
        assert theirs
    other.close()
