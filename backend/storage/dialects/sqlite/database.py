"""SQLite with one writer thread that commits together whatever has queued."""

import contextlib
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, sleep
from typing import Any, Final, TypeVar

from backend import metrics
from backend.clock import system_clock
from backend.errors import ApiError
from backend.storage.database import ClaimedError, Tx
from backend.storage.dialects.sqlite import space
from backend.storage.dialects.sqlite.dialect import Dialect
from telemetry import Family

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
_MOST_JOBS_A_COMMIT: Final = 128
_BUSY_MS: Final = 10_000
# A reader of large pages must not hold up every writer.
_LOG_BUSY_MS: Final = 250
_PAUSE_BETWEEN_FREEING_SECONDS: Final = 0.05
_PRAGMAS: Final = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    f"PRAGMA busy_timeout = {_BUSY_MS}",
    "PRAGMA temp_store = MEMORY",
    # What was erased is overwritten, not only unlinked from its page.
    "PRAGMA secure_delete = ON",
)


@dataclass(slots=True)
class _Job:
    work: Callable[[Tx], Any]
    done: Future[Any]


class _TransactionLostError(Exception):
    """The database ended the whole transaction by itself, as it does when the disk is full."""


class SqliteDatabase:
    """The embedded database: many readers, one writer, group commit with full durability."""

    # No statement is a round trip.
    single_round_trip: None = None

    def __init__(self, path: Path) -> None:
        self._path = path
        self._dialect = Dialect(paramstyle="qmark")
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._connections_lock = threading.Lock()
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        # No change may queue behind the end of the writer, where nobody would take it up.
        self._closing = threading.Lock()
        self._claims: set[str] = set()
        self._claims_lock = threading.Lock()
        self._log_holds_erased = False
        self._closed = False
        self.commits = 0
        self._writer = threading.Thread(target=self._write_forever, name="sqlite-writer", daemon=True)
        self._writer.start()

    def read(self, work: Callable[[Tx], T]) -> T:
        """Runs reads on this thread's connection, each statement by itself."""
        return work(self._reader())

    def snapshot(self, work: Callable[[Tx], T]) -> T:
        """Runs reads that must agree with one another in one read transaction."""
        tx = self._reader()
        connection: sqlite3.Connection = self._local.connection
        connection.execute("BEGIN")
        try:
            return work(tx)
        finally:
            connection.execute("COMMIT")

    def write(
        self,
        work: Callable[[Tx], T | ApiError],
        *,
        lock_key: str | None = None,  # noqa: ARG002 - one writer: no change goes on beside another
        claim: str | None = None,
    ) -> T:
        """Runs changes in the next group commit and returns after it; see `Database.write`."""
        with self._claimed(claim):
            done: Future[Any] = Future()
            with self._closing:
                if self._closed:
                    raise RuntimeError("the database is closed")
                self._queue.put(_Job(work, done))
            began = perf_counter()
            try:
                outcome = done.result()
            finally:
                metrics.DATABASE_WRITE.observe(perf_counter() - began)
        if isinstance(outcome, ApiError):
            raise outcome
        return outcome  # type: ignore[no-any-return]  # what `work` returned

    @contextlib.contextmanager
    def _claimed(self, claim: str | None) -> Iterator[None]:
        if claim is None:
            yield
            return
        with self._claims_lock:
            if claim in self._claims:
                raise ClaimedError
            self._claims.add(claim)
        try:
            yield
        finally:
            with self._claims_lock:
                self._claims.discard(claim)

    @contextlib.contextmanager
    def hold(self, name: str) -> Iterator[bool]:
        """No other process has the database: only what this one does twice at once must not have the name twice."""
        try:
            with self._claimed(f"hold {name}"):
                yield True
        except ClaimedError:
            yield False

    def reclaim_space(self, may_go_on: Callable[[], bool]) -> None:
        """Shrinks the file by what was deleted, in small changes between those of others; see `Database`."""
        self._reader()
        connection: sqlite3.Connection = self._local.connection
        freed = False
        while may_go_on() and space.has_space_to_free(connection) and self.write(_free_some):
            freed = True
            sleep(_PAUSE_BETWEEN_FREEING_SECONDS)
        if freed:
            self.write(_have_log_emptied)

    def now(self) -> int:
        """The clock of this machine."""
        return system_clock()

    def healthy(self) -> bool:
        """Whether a trivial read answers and there is a writer to take up changes."""
        if not self._writer.is_alive():
            return False
        try:
            self._reader()
            self._local.connection.execute("SELECT 1").fetchone()
        except sqlite3.Error:
            return False
        return True

    def measured(self) -> list[Family]:
        """How many changes wait for the writer."""
        return [
            metrics.DATABASE_CONNECTIONS.with_values({}),
            metrics.DATABASE_CONNECTIONS_LIMIT.with_values({}),
            metrics.DATABASE_QUEUE.with_value(self._queue.qsize()),
        ]

    def close(self) -> None:
        """Commits what has queued, then ends every connection."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            self._queue.put(None)
        self._writer.join()
        with self._connections_lock:
            for connection in self._connections:
                connection.close()
            self._connections.clear()

    def _reader(self) -> Tx:
        tx: Tx | None = getattr(self._local, "tx", None)
        if tx is None:
            connection = self._connect()
            connection.execute("PRAGMA query_only = ON")
            self._local.connection = connection
            tx = self._local.tx = Tx(connection, self._dialect)
        return tx

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, isolation_level=None, check_same_thread=False, cached_statements=512, timeout=10
        )
        for pragma in _PRAGMAS:
            connection.execute(pragma)
        with self._connections_lock:
            self._connections.append(connection)
        return connection

    def _write_forever(self) -> None:
        connection: sqlite3.Connection | None = None
        last = False
        while not last:
            batch, last = self._next_batch()
            try:
                connection = connection or self._connect()
            except sqlite3.Error as error:
                _fail(batch, error)
                continue
            self._commit_batch(connection, batch)

    def _next_batch(self) -> tuple[list[_Job], bool]:
        """The jobs that have queued, at least one, and whether the writer must end after them."""
        batch: list[_Job] = []
        job = self._queue.get()
        while job is not None:
            batch.append(job)
            if len(batch) >= _MOST_JOBS_A_COMMIT:
                return batch, False
            try:
                job = self._queue.get_nowait()
            except queue.Empty:
                return batch, False
        return batch, True

    def _commit_batch(self, connection: sqlite3.Connection, batch: list[_Job]) -> None:
        """Runs the jobs in one transaction and tells nobody anything before the commit."""
        outcomes: list[tuple[_Job, Any, Exception | None]] = []
        actions: list[Callable[[], None]] = []
        try:
            connection.execute("BEGIN IMMEDIATE")
            for job in batch:
                tx = Tx(connection, self._dialect)
                result, error = _run_job(connection, tx, job)
                outcomes.append((job, result, error))
                if error is None:
                    actions += tx.take_after_commit()
                    self._log_holds_erased |= tx.leaves_no_trace
            connection.execute("COMMIT")
            self.commits += 1
        except Exception as error:  # noqa: BLE001 - every caller of the batch must hear of it
            # Something may hold all the same.
            self.commits += 1
            metrics.DATABASE_ERRORS.add("commit")
            _LOG.exception("A group commit of %d changes failed", len(batch))
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            _fail(batch, error)
            return
        if self._log_holds_erased:
            self._log_holds_erased = not _empty_log(connection)
        for action in actions:
            try:
                action()
            except Exception:  # noqa: BLE001
                # The change holds all the same, and the writer must live on.
                _LOG.exception("An action after a commit failed")
        for job, result, failure in outcomes:
            if failure is not None:
                job.done.set_exception(failure)
            else:
                job.done.set_result(result)


def _run_job(connection: sqlite3.Connection, tx: Tx, job: _Job) -> tuple[Any, Exception | None]:
    """Runs one job under a savepoint; a job that raises leaves nothing, the others of the batch stay.

    Raises:
        _TransactionLostError: the database gave up the whole transaction, so no job of the batch holds.
    """
    connection.execute("SAVEPOINT job")
    try:
        result = job.work(tx)
    except Exception as error:
        if not connection.in_transaction:
            raise _TransactionLostError from error
        connection.execute("ROLLBACK TO job")
        connection.execute("RELEASE job")
        return None, error
    if not connection.in_transaction:
        raise _TransactionLostError
    connection.execute("RELEASE job")
    return result, None


def _free_some(tx: Tx) -> bool:
    return space.free_some(tx.connection)


def _have_log_emptied(tx: Tx) -> None:
    # The file itself shrinks when the log is taken into it.
    tx.leaves_no_trace = True


def _empty_log(connection: sqlite3.Connection) -> bool:
    """Takes the write-ahead log into the database and cuts it, for it still holds what was erased.

    False when a reader is in the way; it is tried again after the next commit.
    """
    try:
        connection.execute(f"PRAGMA busy_timeout = {_LOG_BUSY_MS}")
        try:
            blocked = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        finally:
            connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
    except sqlite3.Error:
        # What was committed holds, and the writer must live on.
        _LOG.warning("The write-ahead log could not be emptied", exc_info=True)
        return False
    return not blocked


def _fail(batch: list[_Job], error: Exception) -> None:
    for job in batch:
        job.done.set_exception(error)
