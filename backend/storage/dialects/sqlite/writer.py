"""The writer thread, which commits queued changes together."""

import contextlib
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, TypeVar

from sqlalchemy import Dialect

from backend import metrics
from backend.storage.database import Tx
from backend.storage.dialects.sqlite.connection import empty_log

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
_MAX_JOBS_A_COMMIT: Final = 128


@dataclass(slots=True)
class _Job:
    work: Callable[[Tx], object]
    done: Future[object]


class _TransactionLostError(Exception):
    """The database ended the whole transaction by itself, as it does when the disk is full."""


class Writer:
    """Group commit with full durability; `connect` opens the connection of the thread.

    `announce` gets the names that the changes of a commit announce.
    """

    def __init__(
        self, connect: Callable[[], sqlite3.Connection], dialect: Dialect, announce: Callable[[set[str]], None]
    ) -> None:
        self._connect = connect
        self._announce = announce
        self._dialect = dialect
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        # No change may queue behind the end of the thread, where nothing would take it.
        self._closing = threading.Lock()
        self._closed = False
        self._log_holds_deleted = False
        self.commits = 0
        self._thread = threading.Thread(target=self._run, name="sqlite-writer", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Returns whether changes are taken from the queue."""
        return self._thread.is_alive()

    @property
    def queued(self) -> int:
        """How many changes wait for the next commit."""
        return self._queue.qsize()

    def submit(self, work: Callable[[Tx], T]) -> Future[T]:
        """Queues a change; the future has its result after the commit."""
        done: Future[T] = Future()
        with self._closing:
            if self._closed:
                raise RuntimeError("the database is closed")
            self._queue.put(_Job(work, done))  # type: ignore[arg-type]  # the future gets what the work returns
        return done

    def close(self) -> bool:
        """Commits what has queued and ends the thread; False when that was done before."""
        with self._closing:
            if self._closed:
                return False
            self._closed = True
            self._queue.put(None)
        self._thread.join()
        return True

    def _run(self) -> None:
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
        """The jobs that have queued, at least one, and whether the thread must end after them."""
        batch: list[_Job] = []
        job = self._queue.get()
        while job is not None:
            batch.append(job)
            if len(batch) >= _MAX_JOBS_A_COMMIT:
                return batch, False
            try:
                job = self._queue.get_nowait()
            except queue.Empty:
                return batch, False
        return batch, True

    def _commit_batch(self, connection: sqlite3.Connection, batch: list[_Job]) -> None:
        """Runs the jobs in one transaction and sets no result before the commit."""
        outcomes: list[tuple[_Job, object, Exception | None]] = []
        actions: list[Callable[[], None]] = []
        announced: set[str] = set()
        try:
            connection.execute("BEGIN IMMEDIATE")
            for job in batch:
                tx = Tx(connection, self._dialect)
                result, error = _run_job(connection, tx, job)
                outcomes.append((job, result, error))
                if error is None:
                    actions += tx.take_after_commit()
                    announced |= tx.announced
                    self._log_holds_deleted |= tx.leaves_no_trace
            connection.execute("COMMIT")
            self.commits += 1
        except Exception as error:  # noqa: BLE001 - every caller of the batch must get it
            # Something may hold all the same.
            self.commits += 1
            metrics.DATABASE_ERRORS.add("commit")
            _LOG.exception("A group commit of %d changes failed", len(batch))
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            _fail(batch, error)
            return
        if self._log_holds_deleted:
            self._log_holds_deleted = not empty_log(connection)
        if announced:
            self._announce(announced)
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


def _run_job(connection: sqlite3.Connection, tx: Tx, job: _Job) -> tuple[object, Exception | None]:
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


def _fail(batch: list[_Job], error: Exception) -> None:
    for job in batch:
        job.done.set_exception(error)
