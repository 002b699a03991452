"""SQLite, with a reading connection per thread and one writer thread."""

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from time import perf_counter, sleep
from typing import Final, TypeVar

from backend.common import metrics
from backend.common.clock import system_clock
from backend.storage.commits import CommitMarks, Listener, Listeners
from backend.storage.database import ClaimedError, GroupWork, Tx
from backend.storage.dialects.sqlite import database_file
from backend.storage.dialects.sqlite.database_file import Dialect, connect
from backend.storage.dialects.sqlite.writer import Writer
from backend.storage.waiting_callers import caller_gone, gone_error
from telemetry import Family

Item = TypeVar("Item")
T = TypeVar("T")

_PAUSE_BETWEEN_FREEING_SECONDS: Final = 0.05
# Some ten milliseconds of one statement, so that short ones are not held up by the interpreter's lock.
_STEPS_BETWEEN_LOOKS: Final = 1_000_000


class _Reader(threading.local):
    """The reading connection of one thread, once opened."""

    tx: Tx | None = None
    connection: sqlite3.Connection | None = None


class SqliteDatabase:
    """The embedded database: many readers, one writer."""

    # No statement is a round trip.
    remote = False
    single_round_trip: None = None

    def __init__(self, path: Path) -> None:
        self._path = path
        self._dialect = Dialect(paramstyle="qmark")
        self._local = _Reader()
        self._connections: list[sqlite3.Connection] = []
        self._connections_lock = threading.Lock()
        self._claims: set[str] = set()
        self._claims_lock = threading.Lock()
        self._listeners = Listeners()
        log_left = Path(f"{path}-wal").exists()
        self.commit_marks = CommitMarks()
        self._writer = Writer(
            self._connect, self._dialect, self._listeners.notify, self.commit_marks, log_left=log_left
        )

    def read(self, work: Callable[[Tx], T]) -> T:
        """Runs reads on this thread's connection, each statement by itself."""
        try:
            return work(self._local.tx or self._open_reader())
        except sqlite3.OperationalError as error:
            if caller_gone():
                raise gone_error() from error
            raise

    def snapshot(self, work: Callable[[Tx], T]) -> T:
        """Runs reads that must agree with one another in one read transaction."""
        tx = self._local.tx or self._open_reader()
        connection = self._reading()
        connection.execute("BEGIN")
        try:
            return work(tx)
        except sqlite3.OperationalError as error:
            if caller_gone():
                raise gone_error() from error
            raise
        finally:
            # Not left to the progress handler, which would keep the transaction open.
            if caller_gone():
                connection.set_progress_handler(None, 0)
            connection.execute("COMMIT")
            if caller_gone():
                connection.set_progress_handler(caller_gone, _STEPS_BETWEEN_LOOKS)

    def write(self, work: Callable[[Tx], T], *, lock_key: str | None = None, claim: str | None = None) -> T:
        """Runs changes in the next group commit and returns after it; see `Database.write`."""
        return self.write_soon(work, lock_key=lock_key, claim=claim).result()

    def write_soon(
        self,
        work: Callable[[Tx], T],
        *,
        lock_key: str | None = None,  # noqa: ARG002 - one writer: no change runs beside another
        claim: str | None = None,
    ) -> Future[T]:
        """Queues changes for the next group commit; see `Database.write_soon`."""
        return self.write_grouped(lambda tx, _: [work(tx)], None, claim=claim)

    def write_grouped(
        self,
        work: GroupWork[Item, T],
        item: Item,
        *,
        lock_key: str | None = None,  # noqa: ARG002 - as above
        claim: str | None = None,
    ) -> Future[T]:
        """Queues a change that the next group commit makes together with others of an equal `work` function."""
        if claim is not None and not self._take_claim(claim):
            refused: Future[T] = Future()
            refused.set_exception(ClaimedError())
            return refused
        began = perf_counter()

        def end(_: object) -> None:
            metrics.DATABASE_WRITE.observe(perf_counter() - began)
            if claim is not None:
                self._give_claim_back(claim)

        try:
            done = self._writer.submit(work, item)
        except RuntimeError:
            end(None)
            raise
        done.add_done_callback(end)
        return done

    def listen(self, listener: Listener, name: str | None = None) -> None:
        """Calls the listener from now on; this process alone has the database, so nothing is ever missed."""
        self._listeners.add(listener, name)

    @contextlib.contextmanager
    def try_advisory_lock(self, name: str) -> Iterator[bool]:
        """Locks a name within this process, which alone has the database; see `Database.try_advisory_lock`."""
        claim = f"hold {name}"
        taken = self._take_claim(claim)
        try:
            yield taken
        finally:
            if taken:
                self._give_claim_back(claim)

    def reclaim_space(self, may_go_on: Callable[[], bool]) -> None:
        """Shrinks the file by its free pages, in small changes between other changes; see `Database`."""
        connection = self._reading()
        freed = False
        while may_go_on() and database_file.has_space_to_free(connection) and self.write(_free_some):
            freed = True
            sleep(_PAUSE_BETWEEN_FREEING_SECONDS)
        if freed:
            self.write(_request_truncation)

    def now(self) -> int:
        """Returns this machine's time."""
        return system_clock()

    def healthy(self) -> bool:
        """Returns whether a trivial read answers and there is a writer to take changes."""
        if not self._writer.alive:
            return False
        try:
            self._reading().execute("SELECT 1").fetchone()
        except sqlite3.Error:
            return False
        return True

    def measured(self) -> list[Family]:
        """Returns the number of changes that wait for the writer."""
        return [
            metrics.DATABASE_CONNECTIONS.with_values({}),
            metrics.DATABASE_CONNECTIONS_LIMIT.with_values({}),
            metrics.DATABASE_QUEUE.with_value(self._writer.queued),
        ]

    def close(self) -> None:
        """Commits the queued changes, then closes every connection."""
        if not self._writer.close():
            return
        with self._connections_lock:
            for connection in self._connections:
                connection.close()
            self._connections.clear()

    def _take_claim(self, claim: str) -> bool:
        with self._claims_lock:
            if claim in self._claims:
                return False
            self._claims.add(claim)
        return True

    def _give_claim_back(self, claim: str) -> None:
        with self._claims_lock:
            self._claims.discard(claim)

    def _reading(self) -> sqlite3.Connection:
        """This thread's connection."""
        if self._local.connection is None:
            self._open_reader()
        assert self._local.connection is not None
        return self._local.connection

    def _open_reader(self) -> Tx:
        connection = self._connect()
        connection.execute("PRAGMA query_only = ON")
        connection.set_progress_handler(caller_gone, _STEPS_BETWEEN_LOOKS)
        self._local.connection = connection
        tx = self._local.tx = Tx(connection, self._dialect)
        return tx

    def _connect(self) -> sqlite3.Connection:
        connection = connect(self._path)
        with self._connections_lock:
            self._connections.append(connection)
        return connection


def _free_some(tx: Tx) -> bool:
    tx.keeps_caches_valid = True
    assert isinstance(tx.connection, sqlite3.Connection)
    return database_file.free_some(tx.connection)


def _request_truncation(tx: Tx) -> None:
    tx.keeps_caches_valid = True
    # The file itself shrinks when the log is written into it.
    tx.purges_deleted_content = True
