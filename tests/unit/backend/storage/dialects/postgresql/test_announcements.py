"""What one process announces, others hear."""

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress

import psycopg
import pytest

from backend.storage.commits import Listener
from backend.storage.database import OutcomeUnknownError, Tx
from backend.storage.dialects.postgresql.announcements import Announcements
from backend.storage.dialects.postgresql.connection import Connection
from backend.storage.dialects.postgresql.database import PostgresqlDatabase
from tests.support.poll import until
from tests.unit.backend.storage.dialects.postgresql.notes import ADD, ending_sessions_in_their_commit


class Heard:
    """A listener that keeps what it received."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.missed = 0
        self._lock = threading.Lock()

    def __call__(self, names: Collection[str] | None) -> None:
        with self._lock:
            if names is None:
                self.missed += 1
            else:
                self.names |= set(names)


@contextmanager
def process(url: str, listener: Listener | None = None) -> Iterator[PostgresqlDatabase]:
    """A database as another process opens it."""
    database = PostgresqlDatabase(url, 2)
    if listener is not None:
        database.listen(listener)
    try:
        yield database
    finally:
        database.close()


def announcing(*names: str) -> Callable[[Tx], None]:
    def work(tx: Tx) -> None:
        for name in names:
            tx.announce(name)

    return work


def listening(heard: Heard) -> Callable[[], bool]:
    # The first connection, too, may have missed what was before it.
    return lambda: heard.missed > 0


def test_a_change_is_announced_to_every_process_once_it_is_durable(url: str) -> None:
    here, there = Heard(), Heard()
    with process(url, here) as one, process(url, there):
        until(listening(there), "the other process to listen")
        one.write(announcing("run_1", "run_2"), lock_key="a")
        assert here.names == {"run_1", "run_2"}
        until(lambda: there.names == {"run_1", "run_2"}, "the announcement")


def test_a_change_that_fails_is_not_announced(url: str) -> None:
    here = Heard()
    with process(url, here) as one:

        def work(tx: Tx) -> None:
            tx.announce("run_1")
            raise ZeroDivisionError

        with suppress(ZeroDivisionError):
            one.write(work, lock_key="a")
        assert here.names == set()


def test_a_change_that_may_hold_is_announced(url: str) -> None:
    here = Heard()
    with process(url, here) as one, ending_sessions_in_their_commit(url):

        def work(tx: Tx) -> None:
            tx.announce("run_1")
            tx.run(ADD, number=1, text="text")

        with pytest.raises(OutcomeUnknownError):
            one.write(work, lock_key="a")
        assert here.names == {"run_1"}


def test_a_listener_that_lost_its_connection_learns_that_it_may_have_missed_something(url: str) -> None:
    there = Heard()
    with process(url) as one, process(url, there), psycopg.connect(url, autocommit=True) as admin:
        until(listening(there), "the other process to listen")
        admin.execute(
            "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND query LIKE 'LISTEN%'"
        )
        until(lambda: there.missed > 1, "the process to listen again")
        one.write(announcing("run_1"), lock_key="a")
        until(lambda: there.names == {"run_1"}, "the announcement")


def test_announcements_outlast_the_connection_that_sends_them(url: str) -> None:
    there = Heard()
    with process(url) as one, process(url, there), psycopg.connect(url, autocommit=True) as admin:
        until(listening(there), "the other process to listen")
        one.write(announcing("run_1"), lock_key="a")
        until(lambda: there.names == {"run_1"}, "the announcement")
        admin.execute(
            "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND query LIKE 'SELECT pg_notify%'"
        )
        one.write(announcing("run_2"), lock_key="a")
        until(lambda: there.names == {"run_1", "run_2"}, "the announcement")


def test_more_names_than_the_server_takes_in_one_payload_are_all_announced(url: str) -> None:
    there = Heard()
    names = {f"run_{number:026}" for number in range(1_000)}
    with process(url) as one, process(url, there):
        until(listening(there), "the other process to listen")
        one.write(announcing(*names), lock_key="a")
        until(lambda: there.names == names, "the announcement")


@pytest.mark.usefixtures("outage")
def test_a_server_that_is_away_is_logged_once_for_all_connections(url: str, caplog: pytest.LogCaptureFixture) -> None:
    failures = {"announcements-in": 4, "announcements-out": 4}
    connected: set[str] = set()

    def connect() -> Connection:
        thread = threading.current_thread().name
        if failures[thread]:
            failures[thread] -= 1
            raise psycopg.OperationalError("the server is away\nfor reasons")
        connected.add(thread)
        return psycopg.connect(url, autocommit=True, cursor_factory=psycopg.RawCursor)

    announcements = Announcements(connect)
    announcements.listen(Heard())
    announcements.send({"run_1"})
    until(lambda: len(connected) == 2, "both connections", seconds=60)
    announcements.close()
    # Another test's database may end the outage, or be away itself.
    said = [message for message in caplog.messages if "the server is away" in message]
    assert said == ["The database is unavailable: the server is away"]
