"""PostgreSQL, which many processes share: each change is a transaction of its own on a pooled connection."""

import hashlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from time import perf_counter
from typing import Any, Final, TypeVar

import psycopg
from psycopg import errors
from psycopg.pq import TransactionStatus
from sqlalchemy import Dialect, Engine, create_engine
from sqlalchemy.dialects.postgresql.psycopg import dialect as psycopg_dialect
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import QueuePool

from backend import metrics
from backend.errors import ApiError
from backend.storage.database import ClaimedError, DatabaseAwayError, OutcomeUnknownError, Tx
from backend.storage.deadlines import Deadlines
from backend.storage.dialects.postgresql.text import register_text
from backend.storage.statements import Statement
from telemetry import Family

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
_CONNECT_SECONDS: Final = 5
_TRIES: Final = 4
# Callers wait for 15 seconds (edge.backend_seconds). No statement of ours takes a second by itself, and one that does
# not end must not hold its locks for ever.
_WAIT_FOR_CONNECTION_SECONDS: Final = 3
_ALL_TRIES_SECONDS: Final = 11
# Who waited for a lock must see what was committed before it had it, whatever the server's own default is.
_SESSION: Final = (
    "SET default_transaction_isolation = 'read committed';"
    "SET statement_timeout = '9s'; SET lock_timeout = '8s'; SET idle_in_transaction_session_timeout = '60s'"
)
# The transaction is gone, and nothing of it holds: it may be run anew.
_UNDONE: Final = (errors.DeadlockDetected, errors.SerializationFailure)
# Nothing of it holds either, and another try would end no better: the server is too slow, full, or no longer the one
# that takes changes.
_UNABLE: Final = (psycopg.OperationalError, errors.ReadOnlySqlTransaction)

_NOW: Final = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"

_Connection = psycopg.Connection[Any]
_Prepared = tuple[str, Sequence[Any] | None]

# For the rest of the transaction; what `has_locks` reads.
_HELD: Final = "SELECT set_config('workflow_api.locks', CASE WHEN {} THEN 'held' ELSE 'claimed' END, true)"
_SNAPSHOT: Final[Sequence[_Prepared]] = (("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", None),)


class _Tx(Tx):
    """As `Tx`; what gives no answer waits for what does, and both are one round trip.

    `opening` goes before the first statement: what begins a transaction, and where it has a claim what tells whether
    it got it.
    """

    __slots__ = ("_opening", "_waiting")

    def __init__(self, connection: Any, dialect: Dialect, opening: Sequence[_Prepared] = ()) -> None:
        super().__init__(connection, dialect)
        self._opening = opening
        self._waiting: list[_Prepared] = []

    def enqueue(self, statement: Statement, **params: object) -> None:
        self._waiting.append(statement.prepare(self._dialect, params))

    def many(self, statement: Statement, rows: Iterable[Mapping[str, object]]) -> None:
        text, arguments = statement.prepare_many(self._dialect, rows)
        self._waiting += [(text, values) for values in arguments]

    def each(self, statement: Statement, rows: Iterable[Mapping[str, object]]) -> list[list[Any]]:
        with self._connection.pipeline():
            prepared = [statement.prepare(self._dialect, params) for params in rows]
            cursors = [self._execute(text, arguments) for text, arguments in prepared]
        return [[statement.row_maker(cursor)(row) for row in cursor.fetchall()] for cursor in cursors]

    def commit(self) -> None:
        """Ends the transaction with what still waits.

        Raises:
            OutcomeUnknownError: the database went away before it told whether the changes hold.
        """
        if self._opening:
            if not self._waiting:
                return
            # Nothing has been sent: a connection that was lost long ago is found before there is anything to doubt.
            self._execute(*self._waiting.pop())
        try:
            self._execute("COMMIT")
        except psycopg.Error as error:
            if not self._connection.closed:
                raise
            metrics.DATABASE_ERRORS.add("outcome_unknown")
            raise OutcomeUnknownError("Whether the change holds is not known: the database went away.") from error

    def _execute(self, text: str, arguments: Sequence[Any] | None = None) -> Any:
        if not self._opening and not self._waiting:
            return self._connection.execute(text, arguments)
        opening, waiting = self._opening, self._waiting
        self._opening, self._waiting = (), []
        with self._connection.pipeline():
            opened = [self._connection.execute(*prepared) for prepared in opening]
            for prepared in waiting:
                self._connection.execute(*prepared)
            cursor = self._connection.execute(text, arguments)
        if opened and opened[-1].description is not None and not opened[-1].fetchone()[0]:
            raise ClaimedError
        return cursor


class PostgresqlDatabase:
    """A database on a server; `url` is libpq's, as postgresql://user@host/name.

    A change has the whole database to itself unless it says what it is of: then it waits for changes of the same only.
    """

    commits: None = None

    def __init__(self, url: str, connections: int) -> None:
        self._dialect: Dialect = psycopg_dialect(paramstyle="numeric_dollar")  # type: ignore[no-untyped-call]
        self._connections = connections
        self._deadlines = deadlines = Deadlines()
        self._pool = QueuePool(
            lambda: _connect(url, deadlines),
            pool_size=connections,
            max_overflow=0,
            timeout=_WAIT_FOR_CONNECTION_SECONDS,
            use_lifo=True,
            reset_on_return=None,
        )

    def read(self, work: Callable[[Tx], T]) -> T:
        """Runs reads on a pooled connection, each statement by itself; again where the server went away."""
        return self._tried(lambda connection: work(_Tx(connection, self._dialect)))

    def snapshot(self, work: Callable[[Tx], T]) -> T:
        """Runs reads that must agree with one another in one read transaction; as `read`."""

        def agreed(connection: _Connection) -> T:
            try:
                return work(_Tx(connection, self._dialect, _SNAPSHOT))
            finally:
                _end_transaction(connection, "COMMIT")

        return self._tried(agreed)

    def write(self, work: Callable[[Tx], T | ApiError], *, lock_key: str | None = None, claim: str | None = None) -> T:
        """Runs changes in a transaction of their own and returns after it; see `Database.write`."""

        def change(connection: _Connection) -> tuple[T | ApiError, list[Callable[[], None]]]:
            tx = _Tx(connection, self._dialect, _opening(lock_key, claim))
            try:
                outcome = work(tx)
                tx.commit()
            except BaseException:
                _end_transaction(connection, "ROLLBACK")
                raise
            return outcome, tx.take_after_commit()

        began = perf_counter()
        try:
            outcome, actions = self._tried(change)
        finally:
            metrics.DATABASE_WRITE.observe(perf_counter() - began)
        for action in actions:
            try:
                action()
            except Exception:  # noqa: BLE001 - the change holds all the same
                _LOG.exception("An action after a commit failed")
        if isinstance(outcome, ApiError):
            raise outcome
        return outcome

    def single_round_trip(self, statement: Statement, *, lock_key: str, claim: str, **params: object) -> Any:
        """Runs one statement as a change of its own in one round trip; see `AtOnce`.

        Without a BEGIN all that is sent together is one transaction, in which each statement sees what was committed
        before it began: the second what was committed before the first had its locks.
        """
        text, arguments = statement.prepare(self._dialect, params)
        locks, names = _locks(lock_key, claim)

        def change(connection: _Connection) -> Any:
            with connection.pipeline():
                held = connection.execute(_HELD.format(locks), names)
                cursor = connection.execute(text, arguments)
            (how,) = held.fetchone() or ("",)
            if how != "held":
                raise ClaimedError
            return statement.row_maker(cursor)(cursor.fetchone() or ())

        began = perf_counter()
        try:
            return self._tried(change)
        finally:
            metrics.DATABASE_WRITE.observe(perf_counter() - began)

    @contextmanager
    def hold(self, name: str) -> Iterator[bool]:
        """A lock of one session, which ends with it; see `Database.hold`."""
        lock = _number(f"hold {name}")
        with ExitStack() as sessions:
            for left in reversed(range(_TRIES)):
                connection = sessions.enter_context(self._pooled(self._pool))
                try:
                    with self._deadlines.watched(connection, time.monotonic() + _ALL_TRIES_SECONDS):
                        row = connection.execute(f"SELECT pg_try_advisory_lock({lock})").fetchone()
                    break
                except psycopg.Error as error:
                    if not left:
                        metrics.DATABASE_ERRORS.add("lost")
                        raise DatabaseAwayError("The database went away.") from error
                    sessions.close()
            held = row is not None and bool(row[0])
            try:
                yield held
            finally:
                if held:
                    with self._deadlines.watched(connection, time.monotonic() + _ALL_TRIES_SECONDS):
                        _end(connection, f"SELECT pg_advisory_unlock({lock})")

    def reclaim_space(self, may_go_on: Callable[[], bool]) -> None:
        """Nothing: the server's own vacuum does it."""

    def now(self) -> int:
        """The clock of the server."""
        row = self._tried(lambda connection: connection.execute(_NOW).fetchone())
        assert row is not None
        return int(row[0])

    def healthy(self) -> bool:
        """Whether a trivial read answers."""
        try:
            self._tried(lambda connection: connection.execute("SELECT 1").fetchone())
        except (DatabaseAwayError, psycopg.Error):
            return False
        return True

    def measured(self) -> list[Family]:
        """How many connections there are."""
        pool = self._pool
        states: dict[tuple[object, ...], float] = {("in_use",): pool.checkedout(), ("idle",): pool.checkedin()}
        return [
            metrics.DATABASE_CONNECTIONS.with_values(states),
            metrics.DATABASE_CONNECTIONS_LIMIT.with_value(self._connections),
            metrics.DATABASE_QUEUE.with_values({}),
        ]

    def close(self) -> None:
        """Ends every connection that is not in use."""
        self._pool.dispose()
        self._deadlines.stop()

    def _tried(self, work: Callable[[_Connection], T]) -> T:
        """Does work on a connection; anew where the connection was lost before its end, or the server undid it.

        Raises:
            DatabaseAwayError: there is no connection, the last try lost it too, or the server is not able to.
        """
        until = time.monotonic() + _ALL_TRIES_SECONDS
        for left in reversed(range(_TRIES)):
            with self._pooled(self._pool) as connection:
                try:
                    with self._deadlines.watched(connection, until):
                        return work(connection)
                except psycopg.Error as error:
                    lost = connection.closed
                    if left and time.monotonic() < until and (lost or isinstance(error, _UNDONE)):
                        metrics.DATABASE_RETRIES.add("lost" if lost else "undone")
                        continue
                    metrics.DATABASE_ERRORS.add("lost" if lost else "statement")
                    if isinstance(error, errors.ReadOnlySqlTransaction):
                        # Another server takes the changes now.
                        connection.close()
                    if connection.closed or isinstance(error, _UNABLE):
                        raise DatabaseAwayError("The database went away, or is not able to do it now.") from error
                    raise
        raise AssertionError("the last try has returned or raised")

    @contextmanager
    def _pooled(self, pool: QueuePool) -> Iterator[_Connection]:
        began = perf_counter()
        try:
            pooled = pool.connect()
        except (psycopg.Error, PoolTimeoutError) as error:
            metrics.DATABASE_ERRORS.add("unreachable")
            raise DatabaseAwayError("The database cannot be reached.") from error
        finally:
            metrics.DATABASE_WAIT.observe(perf_counter() - began)
        connection: Any = pooled.dbapi_connection
        try:
            yield connection
        finally:
            if connection.closed:
                pooled.invalidate()
                self._forget(pool)
            elif pool is self._pool:
                pooled.close()
            else:
                # Nobody takes it out of a forgotten pool again.
                pooled.invalidate()

    def _forget(self, pool: QueuePool) -> None:
        """Where one connection was lost the others that rest are most likely lost too."""
        if pool is self._pool:
            self._pool = pool.recreate()
            pool.dispose()


def engine_of(url: str) -> Engine:
    """What migrations go through."""
    return create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(url, connect_timeout=_CONNECT_SECONDS)
    )


def _connect(url: str, deadlines: Deadlines) -> Any:
    connection = psycopg.connect(
        url,
        autocommit=True,
        # Statements come with the placeholders that PostgreSQL itself reads: no text of one is parsed here.
        cursor_factory=psycopg.RawCursor,
        connect_timeout=_CONNECT_SECONDS,
        keepalives_idle=5,
        keepalives_interval=2,
        keepalives_count=3,
        tcp_user_timeout=_ALL_TRIES_SECONDS * 1000,
        application_name="workflow-api",
    )
    # A pooler may have taken the connection and have no server for it.
    with deadlines.watched(connection, time.monotonic() + _CONNECT_SECONDS):
        connection.execute(_SESSION)
    register_text(connection)
    return connection


def _opening(lock_key: str | None, claim: str | None) -> Sequence[_Prepared]:
    """What begins a transaction that waits for those it must not run beside, unless another one has its claim."""
    locks, names = _locks(lock_key, claim)
    return (("BEGIN", None), (f"SELECT {locks}", names))


def _locks(lock_key: str | None, claim: str | None) -> tuple[str, list[int]]:
    """An expression that takes the locks, and is false where another transaction has the claim; and its arguments."""
    if lock_key is None:
        locks, names = "pg_advisory_xact_lock($1::bigint) IS NOT NULL", [_EVERYTHING]
    else:
        shared = "pg_advisory_xact_lock_shared($1::bigint) IS NOT NULL"
        locks = f"{shared} AND pg_advisory_xact_lock($2::bigint) IS NOT NULL"
        names = [_EVERYTHING, _number(lock_key)]
    if claim is not None:
        names.append(_number(claim))
        locks = f"CASE WHEN pg_try_advisory_xact_lock(${len(names)}::bigint) THEN {locks} ELSE false END"
    return locks, names


def _end_transaction(connection: _Connection, how: str) -> None:
    """Ends the transaction that was begun, if one was."""
    if connection.info.transaction_status != TransactionStatus.IDLE:
        _end(connection, how)


def _end(connection: _Connection, how: str) -> None:
    """Ends what was begun; a connection that cannot any more is closed."""
    try:
        connection.execute(how)
    except psycopg.Error:
        connection.close()


def _number(name: str) -> int:
    """The advisory lock of a name."""
    return int.from_bytes(hashlib.sha256(f"workflow-api {name}".encode()).digest()[:8], signed=True)


_EVERYTHING: Final = _number("everything")
