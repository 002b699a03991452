"""A pool of connections that replaces lost ones, and repeats work that a lost connection or a deadlock undid."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Final, TypeVar

import psycopg
from psycopg import errors
from psycopg.pq import TransactionStatus
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import QueuePool

from backend.common import metrics
from backend.storage.database import DatabaseUnavailableError
from backend.storage.dialects.postgresql.connection import (
    Connection,
    DatabaseTimeouts,
    DeadlineWatch,
    connect,
    error_summary,
)
from backend.storage.outage import OUTAGE
from backend.storage.waiting_callers import WaitingCaller, caller_gone, current_caller, gone_error

T = TypeVar("T")

_ATTEMPTS: Final = 4
# The transaction was rolled back, so it may be run again.
_UNDONE: Final = (errors.DeadlockDetected, errors.SerializationFailure)
# The driver and the server disagree about the state of the connection, which counts as lost.
_OUT_OF_STEP: Final = (
    errors.InvalidSqlStatementName,
    errors.DuplicatePreparedStatement,
    errors.InFailedSqlTransaction,
    errors.PipelineAborted,
)
# The transaction was rolled back, and another attempt would fail too: the server is too slow, full, or now read-only.
_UNABLE: Final = (psycopg.OperationalError, errors.ReadOnlySqlTransaction)
# Errors of one statement, which say nothing about others.
_OF_ONE_STATEMENT: Final = (errors.QueryCanceled, errors.LockNotAvailable)


class ConnectionPool:
    """Pool of connections to one server. Thread-safe."""

    def __init__(self, url: str, connections: int, timeouts: DatabaseTimeouts) -> None:
        # psycopg's pool warns of lost connections, which `Outage` logs better.
        logging.getLogger("psycopg").setLevel(logging.ERROR)
        self._timeouts = timeouts
        self._closed = False
        self.deadlines = deadlines = DeadlineWatch()
        self._pool = QueuePool(
            lambda: connect(url, timeouts, deadlines),  # type: ignore[arg-type]  # the pool only closes it
            pool_size=connections,
            max_overflow=0,
            timeout=timeouts.pool_seconds,
            use_lifo=True,
            reset_on_return=None,
        )

    @property
    def in_use(self) -> int:
        """Number of connections in use."""
        return self._pool.checkedout()

    @property
    def idle(self) -> int:
        """Number of connections that are open and not in use."""
        return self._pool.checkedin()

    def run(self, work: Callable[[Connection], T]) -> T:
        """Runs work on a connection; again if the connection was lost before its end, or the server undid the work.

        Raises:
            DatabaseUnavailableError: there is no connection, the last attempt lost it too, or the server is unable.
        """
        until = time.monotonic() + self._timeouts.all_attempts_seconds
        caller = current_caller()
        for left in reversed(range(_ATTEMPTS)):
            if caller is not None and caller.gone:
                raise gone_error()
            try:
                with self._connection() as connection:
                    if caller is None:
                        with self.deadlines.watched(connection, until):
                            result = work(connection)
                    else:
                        result = self._run_for(caller, connection, until, work)
            except psycopg.Error as error:
                if caller is not None and caller.gone:
                    raise gone_error() from error
                lost = connection.broken or isinstance(error, _OUT_OF_STEP)
                if left and time.monotonic() < until and (lost or isinstance(error, _UNDONE)):
                    metrics.DATABASE_RETRIES.add("lost" if lost else "undone")
                    continue
                metrics.DATABASE_ERRORS.add("lost" if lost else "statement")
                if lost or isinstance(error, _UNABLE):
                    raise _unavailable(error, lost=lost) from error
                raise
            if OUTAGE.lasts:
                OUTAGE.answered()
            return result
        raise AssertionError("the last attempt has returned or raised")

    def _run_for(
        self, caller: WaitingCaller, connection: Connection, until: float, work: Callable[[Connection], T]
    ) -> T:
        if caller.gone:
            # It waited too long for the connection, which nothing has used.
            raise gone_error()
        with self.deadlines.watched(connection, until, caller):
            result = work(connection)
        if caller.gone:
            # The server may end a statement late, and then one of the connection's next user.
            raise errors.QueryCanceled("the caller no longer waits")
        return result

    @contextmanager
    def session(self, begin: Callable[[Connection], T], end: Callable[[Connection, T], None]) -> Iterator[T]:
        """Keeps one connection for as long as the context lasts; yields the result of `begin`.

        If the connection is lost during `begin`, another takes its place.

        Raises:
            DatabaseUnavailableError: there is no connection, or the last attempt lost it.
        """
        for left in reversed(range(_ATTEMPTS)):
            with self._connection() as connection:
                try:
                    with self._watched(connection):
                        begun = begin(connection)
                except psycopg.Error as error:
                    connection.close()
                    if left:
                        continue
                    metrics.DATABASE_ERRORS.add("lost")
                    raise _unavailable(error, lost=True) from error
                try:
                    yield begun
                finally:
                    with self._watched(connection):
                        end(connection, begun)
                return

    def close(self) -> None:
        """Ends every connection: those in use once they are not."""
        self._closed = True
        self._pool.dispose()
        self.deadlines.stop()

    @contextmanager
    def _watched(self, connection: Connection) -> Iterator[None]:
        with self.deadlines.watched(connection, time.monotonic() + self._timeouts.all_attempts_seconds):
            yield

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        began, pool = perf_counter(), self._pool
        try:
            pooled = pool.connect()
        except (psycopg.Error, PoolTimeoutError) as error:
            metrics.DATABASE_ERRORS.add("unreachable")
            text, words = "The database cannot be reached", error_summary(error)
            if isinstance(error, PoolTimeoutError):
                raise DatabaseUnavailableError(f"{text}: {words}.") from error
            raise OUTAGE.error(text, words) from error
        finally:
            metrics.DATABASE_WAIT.observe(perf_counter() - began)
        connection = pooled.dbapi_connection
        assert isinstance(connection, psycopg.Connection)
        usable = True
        try:
            yield connection
        except psycopg.Error as error:
            # After an error within a pipeline, psycopg believes statements prepared that the server skipped.
            usable = False
            if isinstance(error, errors.ReadOnlySqlTransaction):
                # Another server has become the primary.
                self._forget(pool)
            raise
        finally:
            # Where the caller has gone, only this connection was broken.
            if connection.closed and not caller_gone():
                self._forget(pool)
            idle = connection.pgconn.transaction_status == TransactionStatus.IDLE
            # Nobody takes connections out of a replaced pool again.
            if usable and idle and pool is self._pool:
                pooled.close()
            else:
                pooled.invalidate()
            if self._closed:
                pool.dispose()

    def _forget(self, pool: QueuePool) -> None:
        """Replaces the pool: if one connection was lost, the idle ones most likely are too."""
        if pool is self._pool:
            self._pool = pool.recreate()
            pool.dispose()


def _unavailable(error: psycopg.Error, *, lost: bool) -> DatabaseUnavailableError:
    words = error_summary(error)
    if lost:
        return OUTAGE.error("The connection to the database was lost", words)
    text = "The database cannot do this now"
    if isinstance(error, _OF_ONE_STATEMENT):
        return DatabaseUnavailableError(f"{text}: {words}.")
    return OUTAGE.error(text, words)
