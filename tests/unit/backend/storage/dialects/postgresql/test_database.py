"""A database on a server: acknowledged changes are on its disk, whatever happens to connections."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg import sql

from backend.storage.database import ClaimedError, DatabaseUnavailableError, OutcomeUnknownError, Tx
from backend.storage.dialects.postgresql.connection import DatabaseTimeouts
from backend.storage.dialects.postgresql.database import PostgresqlDatabase
from backend.storage.dialects.postgresql.shared_clock import SharedClock
from backend.storage.outage import Outage
from tests.support.poll import until
from tests.support.postgresql import end_sessions
from tests.unit.backend.storage.dialects.postgresql.notes import (
    ADD,
    ALL,
    END_SESSION,
    JIT,
    SESSION,
    SET,
    HeldChange,
    NoteFacts,
    add,
    add_once,
    ending_sessions_in_their_commit,
    notes,
    waits,
)


def test_no_statement_is_compiled_before_it_runs(database: PostgresqlDatabase) -> None:
    assert database.read(lambda tx: tx.scalar(JIT)) == "off"


def test_work_that_raises_leaves_nothing(database: PostgresqlDatabase) -> None:
    def change(tx: Tx) -> None:
        tx.run(ADD, number=1, text="text")
        raise LookupError

    with pytest.raises(LookupError):
        database.write(change)
    assert notes(database) == {}


def test_actions_run_after_the_commit_and_only_for_work_that_holds(
    database: PostgresqlDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[dict[int, str]] = []

    def change(tx: Tx, *, fails: bool) -> None:
        tx.after_commit(lambda: seen.append(notes(database)))
        tx.after_commit(lambda: 1 / 0)  # type: ignore[arg-type]
        tx.run(ADD, number=1, text="text")
        if fails:
            raise LookupError

    with pytest.raises(LookupError):
        database.write(lambda tx: change(tx, fails=True))
    with caplog.at_level(logging.CRITICAL):
        database.write(lambda tx: change(tx, fails=False))
    assert seen == [{1: "text"}]


@pytest.mark.parametrize("text", ["", "\0", "a\0b\0", "\ufffe", "\ufffe0", "\ufffe1\0\ufffe", "é\U0001f600%s", "\\0"])
def test_any_text_comes_back_as_it_was(database: PostgresqlDatabase, text: str) -> None:
    add(database, 1, text)
    database.write(lambda tx: tx.many(ADD, [{"number": 2, "text": text}]))
    assert notes(database) == {1: text, 2: text}


def test_a_snapshot_does_not_see_what_is_committed_meanwhile(database: PostgresqlDatabase) -> None:
    def look(tx: Tx) -> tuple[int, int]:
        before = len(tx.all(ALL))
        add(database, 1)
        return before, len(tx.all(ALL))

    assert database.snapshot(look) == (0, 0)
    assert notes(database) == {1: "text"}


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [("run 1", "run 1", False), ("run 1", "run 2", True), ("run 1", None, False), (None, "run 1", False)],
)
def test_changes_wait_for_those_of_the_same_and_for_those_of_everything(
    url: str, database: PostgresqlDatabase, first: str | None, second: str | None, together: bool
) -> None:
    other = PostgresqlDatabase(url, 1)
    one = HeldChange(lambda work: database.write(work, lock_key=first))
    until(lambda: one.begun, "the first change")
    two = HeldChange(lambda work: other.write(work, lock_key=second))
    until(lambda: two.begun or waits(url), "the second change to begin or to wait")
    assert two.begun == together
    one.end()
    two.end()
    other.close()


def test_a_claim_is_had_by_one_change_of_any_process_at_a_time(url: str, database: PostgresqlDatabase) -> None:
    other = PostgresqlDatabase(url, 1)
    one = HeldChange(lambda work: database.write(work, lock_key="key 1", claim="start k"))
    until(lambda: one.begun, "the first change")
    for lock_key in ("key 1", "key 2", None):
        with pytest.raises(ClaimedError):
            other.write(lambda tx: tx.all(ALL), lock_key=lock_key, claim="start k")
    other.write(lambda tx: tx.all(ALL), lock_key="key 2", claim="start other")
    one.end()
    other.write(lambda tx: tx.all(ALL), lock_key="key 1", claim="start k")
    other.close()


def test_sessions_that_the_server_ended_are_replaced_unnoticed(url: str, database: PostgresqlDatabase) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: add(database, number), range(8)))
    end_sessions(url)
    assert len(notes(database)) == 8
    end_sessions(url)
    add(database, 8)
    end_sessions(url)
    assert database.snapshot(lambda tx: len(tx.all(ALL))) == 9
    assert database.healthy()


def test_a_change_whose_session_ends_is_retried_and_made_once(database: PostgresqlDatabase) -> None:
    tries = []

    def change(tx: Tx) -> None:
        tx.run(ADD, number=1, text="text")
        tries.append(1)
        if len(tries) == 1:
            tx.scalar(END_SESSION)

    database.write(change)
    assert (len(tries), notes(database)) == (2, {1: "text"})


def test_a_change_whose_session_ends_in_its_commit_is_not_made_twice(url: str, database: PostgresqlDatabase) -> None:
    with ending_sessions_in_their_commit(url), pytest.raises(OutcomeUnknownError):
        add(database, 1)
    assert notes(database) == {}


def test_a_commit_on_a_connection_that_is_out_of_step_is_not_repeated(
    database: PostgresqlDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver gives up though the server has made the change."""
    execute = psycopg.Connection.execute

    def out_of_step(connection: Any, text: Any, arguments: Any = None) -> Any:
        cursor = execute(connection, text, arguments)
        if text == "COMMIT":
            raise psycopg.OperationalError("cannot exit pipeline mode while busy")
        return cursor

    with monkeypatch.context() as patched:
        patched.setattr(psycopg.Connection, "execute", out_of_step)
        with pytest.raises(OutcomeUnknownError):
            add(database, 1)
    assert notes(database) == {1: "text"}


def test_changes_in_a_deadlock_are_made_one_after_the_other(database: PostgresqlDatabase) -> None:
    add(database, 1, "")
    add(database, 2, "")
    both = threading.Barrier(2)
    tries: list[str] = []

    def change(tx: Tx, name: str, numbers: tuple[int, int]) -> None:
        tries.append(name)
        tx.run(SET, of_number=numbers[0], new_text=name)
        if len(tries) <= 2:
            both.wait(60)
        tx.run(SET, of_number=numbers[1], new_text=name)

    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(database.write, lambda tx: change(tx, "a", (1, 2)), lock_key="a")
        two = pool.submit(database.write, lambda tx: change(tx, "b", (2, 1)), lock_key="b")
        one.result(60)
        two.result(60)
    assert len(tries) >= 3, "one of them was undone"
    assert notes(database) in ({1: "a", 2: "a"}, {1: "b", 2: "b"})


def test_a_guarded_insert_waits_for_its_lock_and_sees_what_was_committed_under_it(
    url: str, database: PostgresqlDatabase
) -> None:
    other = PostgresqlDatabase(url, 1)
    entered, release = threading.Event(), threading.Event()

    def hold(tx: Tx) -> None:
        tx.run(ADD, number=1, text="text")
        entered.set()
        assert release.wait(60)

    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(other.write, hold, lock_key="key 1")
        assert entered.wait(60)
        two = pool.submit(add_once, database, 1)
        until(lambda: waits(url), "the second change to wait")
        release.set()
        one.result(60)
        assert two.result(60) == (NoteFacts(notes=1, known=1), False)
    assert notes(database) == {1: "text"}
    other.close()


def test_a_guarded_insert_is_refused_while_another_transaction_has_its_claim(
    url: str, database: PostgresqlDatabase
) -> None:
    other = PostgresqlDatabase(url, 1)
    one = HeldChange(lambda work: other.write(work, lock_key="else", claim="k"))
    until(lambda: one.begun, "the first change")
    with pytest.raises(ClaimedError):
        add_once(database, 1)
    one.end()
    assert notes(database) == {}
    add_once(database, 1)
    assert notes(database) == {1: "text"}
    other.close()


def test_enqueued_changes_keep_their_order(database: PostgresqlDatabase) -> None:
    def change(tx: Tx) -> list[int]:
        tx.enqueue(ADD, number=1, text="text")
        tx.many(ADD, [{"number": number, "text": "text"} for number in (2, 3)])
        seen = [row.number for row in tx.all(ALL)]
        tx.enqueue(SET, of_number=1, new_text="changed")
        return seen

    assert database.write(change) == [1, 2, 3]
    assert notes(database) == {1: "changed", 2: "text", 3: "text"}
    database.write(lambda tx: tx.enqueue(SET, of_number=2, new_text="changed too"))
    assert notes(database)[2] == "changed too"


def test_a_change_that_fails_with_the_commit_leaves_nothing_and_raises(database: PostgresqlDatabase) -> None:
    def change(tx: Tx) -> None:
        tx.all(ALL)
        tx.enqueue(ADD, number=1, text="text")
        tx.enqueue(ADD, number=1, text="the same number")
        tx.after_commit(lambda: pytest.fail("nothing was committed"))

    with pytest.raises(psycopg.errors.UniqueViolation):
        database.write(change)
    assert notes(database) == {}


def test_an_unreachable_server_is_an_error(url: str) -> None:
    away = PostgresqlDatabase(psycopg.conninfo.make_conninfo(url, host="127.0.0.1", port=1), 1)
    for use in (away.read, away.snapshot, away.write):
        with pytest.raises(DatabaseUnavailableError):
            use(lambda tx: tx.all(ALL))
    assert not away.healthy()
    away.close()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"dbname": "missing"}, 'FATAL:  database "missing" does not exist'),
        ({"user": "stranger"}, 'FATAL:  role "stranger" does not exist'),
        ({"host": "127.0.0.1", "port": 1}, "Connection refused"),
    ],
    ids=["database", "role", "port"],
)
def test_an_outage_is_logged_once_in_the_words_of_the_server(
    url: str, outage: Outage, caplog: pytest.LogCaptureFixture, changed: dict[str, Any], said: str
) -> None:
    away = PostgresqlDatabase(psycopg.conninfo.make_conninfo(url, password="geheim", **changed), 1)
    for use in (away.read, away.snapshot, away.write):
        with pytest.raises(DatabaseUnavailableError) as caught:
            use(lambda tx: tx.all(ALL))
        assert caught.value.logged
    away.close()
    (message,) = caplog.messages
    assert message.startswith("The database is unavailable: connection failed: ")
    assert message.endswith(f" failed: {said}")
    assert outage.lasts
    assert "geheim" not in caplog.text


def test_a_lost_connection_has_its_code(
    database: PostgresqlDatabase, outage: Outage, caplog: pytest.LogCaptureFixture
) -> None:
    def lose(tx: Tx) -> None:
        tx.connection.execute("SELECT pg_terminate_backend(pg_backend_pid())", ())

    with pytest.raises(DatabaseUnavailableError):
        database.read(lose)
    assert caplog.messages == [
        "The database is unavailable: terminating connection due to administrator command (SQLSTATE 57P01)"
    ]
    assert outage.lasts


def test_a_statement_that_takes_too_long_is_no_outage(
    url: str, outage: Outage, caplog: pytest.LogCaptureFixture
) -> None:
    database = PostgresqlDatabase(url, 1, DatabaseTimeouts(statement_ms=10))
    words = r"canceling statement due to statement timeout \(SQLSTATE 57014\)"
    with pytest.raises(DatabaseUnavailableError, match=words) as caught:
        database.read(lambda tx: tx.connection.execute("SELECT pg_sleep(60)", ()))
    database.close()
    assert not caught.value.logged
    assert not outage.lasts
    assert caplog.messages == []


def test_a_pool_without_a_free_connection_is_not_waited_for(url: str) -> None:
    database = PostgresqlDatabase(url, 4, DatabaseTimeouts(pool_seconds=0.01))
    held = [
        HeldChange(lambda work, number=number: database.write(work, lock_key=f"run {number}"))  # type: ignore[misc]
        for number in range(4)
    ]
    until(lambda: all(one.begun for one in held), "every connection in use")
    with pytest.raises(DatabaseUnavailableError):
        notes(database)
    for one in held:
        one.end()
    database.close()


def test_a_connection_in_use_at_the_close_ends_after_its_use(url: str) -> None:
    closing = PostgresqlDatabase(url, 1)
    pid = closing.read(lambda tx: tx.scalar_one(SESSION))
    held = HeldChange(closing.write)
    until(lambda: held.begun, "the change")
    closing.close()
    held.end()
    with psycopg.connect(url, autocommit=True) as connection:
        sessions = "SELECT 1 FROM pg_stat_activity WHERE pid = %s"
        until(lambda: connection.execute(sessions, [pid]).fetchone() is None, "the end of the session")


def test_a_name_is_held_by_one_process_until_it_releases_it_or_ends(url: str, database: PostgresqlDatabase) -> None:
    other = PostgresqlDatabase(url, 2)
    with (
        database.try_advisory_lock("upkeep") as mine,
        other.try_advisory_lock("upkeep") as theirs,
        other.try_advisory_lock("else") as another,
    ):
        assert (mine, theirs, another) == (True, False, True)
    with other.try_advisory_lock("upkeep") as theirs:
        assert theirs
        end_sessions(url)
        with database.try_advisory_lock("upkeep") as mine:
            assert mine
    other.close()


def test_the_time_is_the_servers(url: str, database: PostgresqlDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 0)
    before = database.now()
    clock = SharedClock(database)
    told = clock()
    clock.stop()
    # The two are compared over the wire, which takes its time.
    assert before - 1_000 <= told <= database.now() + 1_000


def test_a_change_sees_what_was_committed_under_its_lock_at_any_default_isolation_of_the_server(
    database: PostgresqlDatabase, url: str
) -> None:
    def add_unless_there_is_one(tx: Tx) -> None:
        if not tx.all(ALL):
            tx.run(ADD, number=2, text="second")

    def hold_and_add(hold: Callable[[Tx], None]) -> None:
        def change(tx: Tx) -> None:
            hold(tx)
            tx.run(ADD, number=1, text="first")

        strict.write(change, lock_key="key 1")

    with psycopg.connect(url, autocommit=True) as connection:
        set_default = "ALTER DATABASE {} SET default_transaction_isolation = 'repeatable read'"
        connection.execute(sql.SQL(set_default).format(sql.Identifier(connection.info.dbname)))
    strict = PostgresqlDatabase(url, 2)
    first = HeldChange(hold_and_add)
    with ThreadPoolExecutor(1) as pool:
        until(lambda: first.begun, "the first change to begin")
        second = pool.submit(strict.write, add_unless_there_is_one, lock_key="key 1")
        until(lambda: waits(url), "the second change to wait")
        first.end()
        second.result(60)
    strict.close()
    assert notes(database) == {1: "first"}
