"""PostgreSQL, which many processes share: each change is a transaction of its own on a pooled connection."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from time import perf_counter
from typing import Final, TypeVar

import psycopg
from sqlalchemy import Dialect
from sqlalchemy.dialects.postgresql.psycopg import dialect as psycopg_dialect

from backend.common import metrics
from backend.storage.commits import Listener
from backend.storage.database import ClaimedError, DatabaseUnavailableError, GroupWork, OutcomeUnknownError, Tx, bind
from backend.storage.dialects.postgresql.announcements import Announcements
from backend.storage.dialects.postgresql.connection import BlockingSessionWatch, Connection, DatabaseTimeouts, connect
from backend.storage.dialects.postgresql.pool import ConnectionPool
from backend.storage.dialects.postgresql.transaction import (
    SNAPSHOT,
    PipelinedTx,
    end,
    end_transaction,
    guarded_params,
    guarded_statement,
    lock_number,
    take_locks,
    take_locks_for_next,
)
from backend.storage.statements import GuardedInsert, Params, RowT
from telemetry import Family

Item = TypeVar("Item")
T = TypeVar("T")

_LOG = logging.getLogger(__name__)
_NOW: Final = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"


class PostgresqlDatabase:
    """A database on a server; `url` is libpq's, as postgresql://user@host/name.

    A change without a lock key runs beside no other; one with a key, beside those with other keys.
    """

    remote = True
    commit_marks: None = None

    def __init__(self, url: str, connections: int, timeouts: DatabaseTimeouts | None = None) -> None:
        self._dialect: Dialect = psycopg_dialect(paramstyle="numeric_dollar")  # type: ignore[no-untyped-call]
        self._connections = connections
        times = timeouts or DatabaseTimeouts()
        self._pool = ConnectionPool(url, connections, times)
        self._announcements = Announcements(lambda: connect(url, times, self._pool.deadlines))
        self._blocking = BlockingSessionWatch(lambda: connect(url, times, self._pool.deadlines), times.blocking_seconds)

    def end_blocking_sessions(self) -> None:
        """Ends sessions of frozen processes from now on, until this database is closed."""
        self._blocking.start()

    def read(self, work: Callable[[Tx], T]) -> T:
        """Runs reads on a pooled connection, each statement by itself; again if the connection was lost."""
        return self._pool.run(lambda connection: work(PipelinedTx(connection, self._dialect)))

    def snapshot(self, work: Callable[[Tx], T]) -> T:
        """Runs reads that must agree with one another in one read transaction; again as `read`."""

        def in_transaction(connection: Connection) -> T:
            try:
                return work(PipelinedTx(connection, self._dialect, SNAPSHOT))
            finally:
                end_transaction(connection, "COMMIT")

        return self._pool.run(in_transaction)

    def write(self, work: Callable[[Tx], T], *, lock_key: str | None = None, claim: str | None = None) -> T:
        """Runs changes in a transaction of their own and returns after it; see `Database.write`."""
        opening = (("BEGIN", None), take_locks(lock_key, claim))

        def change(connection: Connection) -> tuple[T, PipelinedTx]:
            tx = PipelinedTx(connection, self._dialect, opening)
            try:
                result = work(tx)
                tx.commit()
            except OutcomeUnknownError:
                # The change may be durable, and then nothing else announces it.
                self._announce(tx)
                raise
            except BaseException:
                end_transaction(connection, "ROLLBACK")
                raise
            return result, tx

        began = perf_counter()
        try:
            result, made = self._pool.run(change)
        finally:
            metrics.DATABASE_WRITE.observe(perf_counter() - began)
        self._announce(made)
        for action in made.take_after_commit():
            try:
                action()
            except Exception:  # noqa: BLE001 - the change holds all the same
                _LOG.exception("An action after a commit failed")
        return result

    def write_soon(
        self, work: Callable[[Tx], T], *, lock_key: str | None = None, claim: str | None = None
    ) -> Future[T]:
        """Runs changes at once, on this thread; see `Database.write_soon`."""
        done: Future[T] = Future()
        try:
            done.set_result(self.write(work, lock_key=lock_key, claim=claim))
        except Exception as error:  # noqa: BLE001 - it is the caller's
            done.set_exception(error)
        return done

    def write_grouped(
        self, work: GroupWork[Item, T], item: Item, *, lock_key: str | None = None, claim: str | None = None
    ) -> Future[T]:
        """Runs the changes of this item alone: changes of other items wait for other locks."""
        return self.write_soon(lambda tx: work(tx, [item])[0], lock_key=lock_key, claim=claim)

    def single_round_trip(
        self,
        guarded: GuardedInsert[RowT],
        expected: RowT,
        rows: Mapping[str, Params | Sequence[Params]],
        *,
        lock_key: str,
        claim: str,
        **params: object,
    ) -> tuple[RowT, bool]:
        """Makes a guarded insert as a change of its own in one round trip; see `SingleRoundTrip`.

        Without a BEGIN, statements sent together are one transaction, and each sees all commits before it began: the
        second sees all commits before the first got its locks.
        """
        given = params | guarded_params(guarded, expected, rows)
        text, arguments = bind(guarded_statement(guarded), self._dialect, given)
        locks, numbers = take_locks_for_next(lock_key, claim)

        def change(connection: Connection) -> tuple[RowT, bool]:
            with connection.pipeline():
                lock_result = connection.execute(locks, numbers)
                cursor = connection.execute(text, arguments)
            if lock_result.fetchall() != [("held",)]:
                raise ClaimedError
            *met, fits = cursor.fetchall()[0]
            return guarded.row._make(met), bool(fits)

        began = perf_counter()
        try:
            return self._pool.run(change)
        finally:
            metrics.DATABASE_WRITE.observe(perf_counter() - began)

    def _announce(self, tx: Tx) -> None:
        if tx.announced:
            self._announcements.send(tx.announced)

    def listen(self, listener: Listener, name: str | None = None) -> None:
        """Calls the listener from now on, over a connection of its own."""
        self._announcements.listen(listener, name)

    @contextmanager
    def try_advisory_lock(self, name: str) -> Iterator[bool]:
        """Takes a lock of one session, and frees it with the session; see `Database.try_advisory_lock`."""
        lock = lock_number(f"hold {name}")

        def take(connection: Connection) -> bool:
            return connection.execute(f"SELECT pg_try_advisory_lock({lock})").fetchall() == [(True,)]

        def release(connection: Connection, locked: bool) -> None:
            if locked:
                end(connection, f"SELECT pg_advisory_unlock({lock})")

        with self._pool.session(take, release) as locked:
            yield locked

    def reclaim_space(self, may_go_on: Callable[[], bool]) -> None:
        """Does nothing: the server's own vacuum frees space."""

    def now(self) -> int:
        """Returns the server's time."""
        return int(self._pool.run(lambda connection: connection.execute(_NOW).fetchall())[0][0])

    def healthy(self) -> bool:
        """Returns whether a trivial read answers."""
        try:
            self._pool.run(lambda connection: connection.execute("SELECT 1").fetchone())
        except (DatabaseUnavailableError, psycopg.Error):
            return False
        return True

    def measured(self) -> list[Family]:
        """Returns the number of connections, in use and idle."""
        states: dict[tuple[object, ...], float] = {("in_use",): self._pool.in_use, ("idle",): self._pool.idle}
        return [
            metrics.DATABASE_CONNECTIONS.with_values(states),
            metrics.DATABASE_CONNECTIONS_LIMIT.with_value(self._connections),
            metrics.DATABASE_QUEUE.with_values({}),
        ]

    def close(self) -> None:
        """Ends every connection: those in use once they are not."""
        self._blocking.stop()
        self._announcements.close()
        self._pool.close()
