"""The writer thread, which commits queued changes together."""

import contextlib
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from sqlalchemy import Dialect

from backend.common import metrics
from backend.storage.commits import CommitMarks
from backend.storage.database import GroupWork, Tx
from backend.storage.dialects.sqlite.database_file import LogTruncation
from backend.storage.outage import OUTAGE

Item = TypeVar("Item")
T = TypeVar("T")

_LOG = logging.getLogger(__name__)
_MAX_JOBS_A_COMMIT: Final = 128
# Errors of the file system, after which another attempt may succeed.
_UNABLE: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN})
_PRIMARY_CODE: Final = 0xFF


@dataclass(slots=True)
class _Job:
    work: GroupWork[Any, Any]
    item: object
    done: Future[Any]


class _Outcome(NamedTuple):
    """Outcome of jobs in a transaction not yet committed: a result for each job, or the error of a single job."""

    jobs: Sequence[_Job]
    tx: Tx
    results: Sequence[object]
    error: Exception | None = None


class _TransactionLostError(Exception):
    """The database ended the whole transaction by itself, as it does when the disk is full."""


class Writer:
    """Group commit with full durability; `connect` opens the connection of the thread.

    `announce` gets the names that the changes of a commit announce, `marks` the runs that they change. `log_left` says
    that an earlier process left a write-ahead log, which may hold deleted content.
    """

    def __init__(
        self,
        connect: Callable[[], sqlite3.Connection],
        dialect: Dialect,
        announce: Callable[[set[str]], None],
        marks: CommitMarks,
        *,
        log_left: bool,
    ) -> None:
        self._connect = connect
        self._announce = announce
        self._dialect = dialect
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        # No change may queue behind the end of the thread, where nothing would take it.
        self._closing = threading.Lock()
        self._closed = False
        self._log_emptying = LogTruncation(wanted=log_left)
        self._marks = marks
        self._thread = threading.Thread(target=self._run, name="sqlite-writer", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Returns whether changes are taken from the queue."""
        return self._thread.is_alive()

    @property
    def queued(self) -> int:
        """Number of changes that wait for the next commit."""
        return self._queue.qsize()

    def submit(self, work: GroupWork[Item, T], item: Item) -> Future[T]:
        """Queues a change, made together with others of an equal `work` function; the future has its result."""
        done: Future[T] = Future()
        # A running future cannot be cancelled: the change goes on.
        done.set_running_or_notify_cancel()
        with self._closing:
            if self._closed:
                raise RuntimeError("the database is closed")
            self._queue.put(_Job(work, item, done))
        return done

    def close(self) -> bool:
        """Commits the queued changes and ends the thread; returns False if it was closed before."""
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
                self._log_emptying.postpone()
                _fail(batch, error)
                continue
            if batch:
                self._commit_batch(connection, batch)
            if self._log_emptying.wanted:
                self._log_emptying.attempt(connection, early=last)

    def _next_batch(self) -> tuple[list[_Job], bool]:
        """Returns the queued jobs, none if the log is to be emptied, and whether the thread must end after them."""
        batch: list[_Job] = []
        try:
            emptying = self._log_emptying
            job = self._queue.get(timeout=emptying.seconds_left() if emptying.wanted else None)
        except queue.Empty:
            return batch, False
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
        try:
            outcomes = self._run_together(connection, batch)
            if outcomes is None:
                outcomes = self._run_apart(connection, batch)
            # Readers see the changes from some moment of the commit on, whether or not it succeeds.
            self._mark(outcomes)
            connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - every caller of the batch must get it
            metrics.DATABASE_ERRORS.add("commit")
            _log_failed_commit(error, len(batch))
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            self._marks.end()
            _fail(batch, error)
            return
        self._marks.end()
        if OUTAGE.lasts:
            OUTAGE.answered()
        self._end(connection, outcomes)

    def _end(self, connection: sqlite3.Connection, outcomes: Iterable[_Outcome]) -> None:
        """Runs the actions that wait for the commit, and gives every job its result."""
        actions: list[Callable[[], None]] = []
        announced: set[str] = set()
        for outcome in outcomes:
            if outcome.error is None:
                actions += outcome.tx.take_after_commit()
                announced |= outcome.tx.announced
                if outcome.tx.purges_deleted_content:
                    self._log_emptying.request()
        if self._log_emptying.wanted:
            self._log_emptying.attempt(connection)
        if announced:
            self._announce(announced)
        for action in actions:
            try:
                action()
            except Exception:  # noqa: BLE001
                # The change holds all the same, and the writer must live on.
                _LOG.exception("An action after a commit failed")
        for jobs, _, results, failure in outcomes:
            if failure is not None:
                _fail(jobs, failure)
            else:
                for job, result in zip(jobs, results, strict=True):
                    job.done.set_result(result)

    def _mark(self, outcomes: Iterable[_Outcome]) -> None:
        counted = [each.tx.changed_runs for each in outcomes if each.error is None and not each.tx.keeps_caches_valid]
        if counted:
            self._marks.begin(counted)

    def _run_together(self, connection: sqlite3.Connection, batch: list[_Job]) -> list[_Outcome] | None:
        """Runs the jobs in a transaction; returns None, with all rolled back, if one raised.

        A savepoint for each job would cost two statements, and a copy of each page that it shares with earlier jobs.

        Raises:
            _TransactionLostError: the database gave up the whole transaction, so no job of the batch holds.
        """
        connection.execute("BEGIN IMMEDIATE")
        outcomes: list[_Outcome] = []
        for jobs in _by_work(batch):
            tx = Tx(connection, self._dialect)
            try:
                results = _worked(tx, jobs)
            except Exception as error:
                if not connection.in_transaction:
                    raise _TransactionLostError from error
                connection.execute("ROLLBACK")
                return None
            if not connection.in_transaction:
                raise _TransactionLostError
            outcomes.append(_Outcome(jobs, tx, results))
        return outcomes

    def _run_apart(self, connection: sqlite3.Connection, batch: list[_Job]) -> list[_Outcome]:
        """Runs the jobs in a transaction with a savepoint each, so that only jobs that raise are rolled back.

        Raises:
            _TransactionLostError: the database gave up the whole transaction.
        """
        connection.execute("BEGIN IMMEDIATE")
        outcomes: list[_Outcome] = []
        for job in batch:
            tx = Tx(connection, self._dialect)
            connection.execute("SAVEPOINT job")
            try:
                results, failure = _worked(tx, [job]), None
            except Exception as error:
                if not connection.in_transaction:
                    raise _TransactionLostError from error
                connection.execute("ROLLBACK TO job")
                results, failure = (), error
            if not connection.in_transaction:
                raise _TransactionLostError
            connection.execute("RELEASE job")
            outcomes.append(_Outcome([job], tx, results, failure))
        return outcomes


def _worked(tx: Tx, jobs: Sequence[_Job]) -> Sequence[object]:
    """Runs jobs with an equal `work` function.

    Raises:
        ValueError: the work did not return exactly one result for each job.
    """
    results: Sequence[object] = jobs[0].work(tx, [job.item for job in jobs])
    if len(results) != len(jobs):
        raise ValueError(f"{jobs[0].work!r} gave {len(results)} results for {len(jobs)} changes")
    return results


def _by_work(batch: Sequence[_Job]) -> Iterable[list[_Job]]:
    """Groups jobs with an equal `work` function, in the order of the first of each group."""
    gathered: dict[GroupWork[Any, Any], list[_Job]] = {}
    for job in batch:
        gathered.setdefault(job.work, []).append(job)
    return gathered.values()


def _log_failed_commit(error: Exception, changes: int) -> None:
    if not _unable(error):
        _LOG.error("A group commit of %d changes failed", changes, exc_info=error)


def _fail(batch: Sequence[_Job], error: Exception) -> None:
    if _unable(error):
        unavailable = OUTAGE.error("The database cannot be written", _error_summary(error))
        unavailable.__cause__ = error
        error = unavailable
    for job in batch:
        job.done.set_exception(error)


def _unable(error: Exception) -> bool:
    """Returns whether the file system caused the failure, so that the change was rolled back."""
    if isinstance(error, _TransactionLostError):
        return True
    return isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode & _PRIMARY_CODE in _UNABLE


def _error_summary(error: Exception) -> str:
    """Returns SQLite's message about the file system, with the name of its code."""
    cause = error.__cause__ if isinstance(error, _TransactionLostError) else error
    name = getattr(cause, "sqlite_errorname", None)
    return f"{cause} ({name})" if name else "it gave up a transaction"
