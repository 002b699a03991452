"""A database on a server: what a caller was told is on its disk, whatever happens to connections."""

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from sqlalchemy import Column, Integer, MetaData, Table, Text, bindparam, func, insert, select, update

from backend.errors import ApiError
from backend.storage.database import ClaimedError, DatabaseAwayError, OutcomeUnknownError, Tx
from backend.storage.postgresql import PostgresqlDatabase, engine_of
from backend.storage.shared_clock import SharedClock
from backend.storage.statements import sql
from tests.support.poll import until
from tests.support.postgresql import Postgresql
from workflow_api.v1 import errors_pb2

CATALOGUE = MetaData()
NOTES = Table("notes", CATALOGUE, Column("number", Integer, primary_key=True), Column("text", Text, nullable=False))
ADD = sql(insert(NOTES), ["number", "text"])
ALL = sql(select(NOTES).order_by(NOTES.c.number))
SET = sql(update(NOTES).where(NOTES.c.number == bindparam("of_number")).values(text=bindparam("new_text")))
END_SESSION = sql(select(func.pg_terminate_backend(func.pg_backend_pid())))


@pytest.fixture(scope="module")
def url(postgresql_server: Postgresql) -> Iterator[str]:
    with postgresql_server.database() as url:
        engine = engine_of(url)
        CATALOGUE.create_all(engine)
        engine.dispose()
        yield url


@pytest.fixture
def database(url: str) -> Iterator[PostgresqlDatabase]:
    with psycopg.connect(url) as connection:
        connection.execute("DELETE FROM notes")
    database = PostgresqlDatabase(url, 4)
    yield database
    database.close()


def add(database: PostgresqlDatabase, number: int, text: str = "text") -> None:
    database.write(lambda tx: tx.run(ADD, number=number, text=text))


def notes(database: PostgresqlDatabase) -> dict[int, str]:
    return {row.number: row.text for row in database.read(lambda tx: tx.all(ALL))}


def end_sessions(url: str) -> None:
    """As a restart of the server does."""
    with psycopg.connect(url) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def test_work_that_raises_leaves_nothing(database: PostgresqlDatabase) -> None:
    def change(tx: Tx) -> None:
        tx.run(ADD, number=1, text="text")
        raise LookupError

    with pytest.raises(LookupError):
        database.write(change)
    assert notes(database) == {}


def test_work_that_returns_an_error_keeps_what_it_wrote_and_the_error_is_raised(database: PostgresqlDatabase) -> None:
    def change(tx: Tx) -> ApiError:
        tx.run(ADD, number=1, text="text")
        return ApiError(errors_pb2.ERROR_REASON_QUOTA_EXCEEDED)

    with pytest.raises(ApiError):
        database.write(change)
    assert notes(database) == {1: "text"}


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


class Held:
    """A change that has begun, and ends when it is let go."""

    def __init__(self, write: Callable[[Callable[[Tx], None]], None]) -> None:
        self._begun, self._let_go = threading.Event(), threading.Event()
        self._pool = ThreadPoolExecutor(1)
        self._done = self._pool.submit(write, self._work)

    def _work(self, tx: Tx) -> None:
        tx.all(ALL)
        self._begun.set()
        assert self._let_go.wait(60)

    @property
    def begun(self) -> bool:
        return self._begun.is_set()

    def end(self) -> None:
        self._let_go.set()
        self._done.result(60)
        self._pool.shutdown()


def waits(url: str) -> bool:
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        ).fetchone()
    return found is not None and found[0] > 0


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [("run 1", "run 1", False), ("run 1", "run 2", True), ("run 1", None, False), (None, "run 1", False)],
)
def test_changes_wait_for_those_of_the_same_and_for_those_of_everything(
    url: str, database: PostgresqlDatabase, first: str | None, second: str | None, together: bool
) -> None:
    other = PostgresqlDatabase(url, 1)
    one = Held(lambda work: database.write(work, of=first))
    until(lambda: one.begun, "the first change")
    two = Held(lambda work: other.write(work, of=second))
    until(lambda: two.begun or waits(url), "the second change to begin or to wait")
    assert two.begun == together
    one.end()
    two.end()
    other.close()


def test_a_claim_is_had_by_one_change_of_any_process_at_a_time(url: str, database: PostgresqlDatabase) -> None:
    other = PostgresqlDatabase(url, 1)
    one = Held(lambda work: database.write(work, of="key 1", claim="start k"))
    until(lambda: one.begun, "the first change")
    for of in ("key 1", "key 2", None):
        with pytest.raises(ClaimedError):
            other.write(lambda tx: tx.all(ALL), of=of, claim="start k")
    other.write(lambda tx: tx.all(ALL), of="key 2", claim="start other")
    one.end()
    other.write(lambda tx: tx.all(ALL), of="key 1", claim="start k")
    other.close()


def test_a_server_that_ended_every_session_is_not_noticed(url: str, database: PostgresqlDatabase) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: add(database, number), range(8)))
    end_sessions(url)
    assert len(notes(database)) == 8
    end_sessions(url)
    add(database, 8)
    end_sessions(url)
    assert database.snapshot(lambda tx: len(tx.all(ALL))) == 9
    assert database.healthy()


def test_a_change_whose_session_ends_is_made_once_all_the_same(database: PostgresqlDatabase) -> None:
    tries = []

    def change(tx: Tx) -> None:
        tx.run(ADD, number=1, text="text")
        tries.append(1)
        if len(tries) == 1:
            tx.one(END_SESSION)

    database.write(change)
    assert (len(tries), notes(database)) == (2, {1: "text"})


def test_a_change_whose_session_ends_in_its_commit_is_not_made_twice(url: str, database: PostgresqlDatabase) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("""
            CREATE FUNCTION end_session() RETURNS trigger LANGUAGE plpgsql AS
                'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END';
            CREATE CONSTRAINT TRIGGER end_session AFTER INSERT ON notes
                DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION end_session();
        """)
    try:
        with pytest.raises(OutcomeUnknownError):
            add(database, 1)
    finally:
        with psycopg.connect(url) as connection:
            connection.execute("DROP TRIGGER end_session ON notes; DROP FUNCTION end_session")
    assert notes(database) == {}


def test_changes_that_lock_each_other_out_are_made_one_after_the_other(database: PostgresqlDatabase) -> None:
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
        one = pool.submit(database.write, lambda tx: change(tx, "a", (1, 2)), of="a")
        two = pool.submit(database.write, lambda tx: change(tx, "b", (2, 1)), of="b")
        one.result(60)
        two.result(60)
    assert len(tries) >= 3, "one of them was undone"
    assert notes(database) in ({1: "a", 2: "a"}, {1: "b", 2: "b"})


def test_a_server_that_is_not_there_is_told(url: str) -> None:
    away = PostgresqlDatabase(psycopg.conninfo.make_conninfo(url, host="127.0.0.1", port=1), 1)
    for use in (away.read, away.snapshot, away.write):
        with pytest.raises(DatabaseAwayError):
            use(lambda tx: tx.all(ALL))
    assert not away.healthy()
    away.close()


def test_a_connection_that_never_comes_free_is_told(
    database: PostgresqlDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database._pool, "_timeout", 0.01)
    held = [Held(lambda work, number=number: database.write(work, of=f"run {number}")) for number in range(4)]  # type: ignore[misc]
    until(lambda: all(one.begun for one in held), "every connection in use")
    with pytest.raises(DatabaseAwayError):
        notes(database)
    for one in held:
        one.end()


def test_a_name_is_held_by_one_process_until_it_lets_go_or_ends(url: str, database: PostgresqlDatabase) -> None:
    other = PostgresqlDatabase(url, 2)
    with database.hold("upkeep") as mine, other.hold("upkeep") as theirs, other.hold("else") as another:
        assert (mine, theirs, another) == (True, False, True)
    with other.hold("upkeep") as theirs:
        assert theirs
        end_sessions(url)
        with database.hold("upkeep") as mine:
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
