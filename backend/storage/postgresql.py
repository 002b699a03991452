"""PostgreSQL, which many processes share: each change is a transaction of its own on a pooled connection."""

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from time import perf_counter
from typing import Any, Final, TypeVar

import psycopg
from psycopg import errors
from sqlalchemy import Dialect, Engine, create_engine
from sqlalchemy.dialects.postgresql.psycopg import dialect as psycopg_dialect
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import QueuePool

from backend import metrics
from backend.errors import ApiError
from backend.storage.database import ClaimedError, DatabaseAwayError, OutcomeUnknownError, Tx
from backend.storage.postgresql_text import register_text
from backend.storage.statements import Statement
from measures import Family

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
_CONNECT_SECONDS: Final = 5
_WAIT_FOR_CONNECTION_SECONDS: Final = 10
_TRIES: Final = 4
# No statement of ours takes a second; one that does not end must not hold its locks for ever.
_SESSION: Final = (
    "SET statement_timeout = '30s'; SET lock_timeout = '20s'; SET idle_in_transaction_session_timeout = '60s'"
)
# The transaction is gone, and nothing of it holds: it may be run anew.
_UNDONE: Final = (errors.DeadlockDetected, errors.SerializationFailure)

_NOW: Final = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"

_Connection = psycopg.Connection[Any]


class _Tx(Tx):
    """As `Tx`, with what psycopg has on its cursors only."""

    __slots__ = ()

    def many(self, statement: Statement, rows: Iterable[Mapping[str, object]]) -> None:
        prepared = [statement.prepare(self._dialect, row) for row in rows]
        if prepared:
            connection: Any = self._connection
            connection.cursor().executemany(prepared[0][0], [arguments for _, arguments in prepared])


class PostgresqlDatabase:
    """A database on a server; `url` is libpq's, as postgresql://user@host/name.

    A change has the whole database to itself unless it says what it is of: then it waits for changes of the same only.
    """

    def __init__(self, url: str, connections: int) -> None:
        self._dialect: Dialect = psycopg_dialect(paramstyle="format")  # type: ignore[no-untyped-call]
        self._connections = connections
        self._pool = QueuePool(
            lambda: _connect(url),
            pool_size=connections,
            max_overflow=0,
            timeout=_WAIT_FOR_CONNECTION_SECONDS,
            use_lifo=True,
            reset_on_return=None,
        )

    def read(self, work: Callable[[Tx], T]) -> T:
        """Runs reads on a pooled connection, each statement by itself; again where the server went away."""
        return self._tried(lambda connection: work(self._tx(connection)))

    def snapshot(self, work: Callable[[Tx], T]) -> T:
        """Runs reads that must agree with one another in one read transaction; as `read`."""

        def agreed(connection: _Connection) -> T:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            try:
                return work(self._tx(connection))
            finally:
                _end(connection, "COMMIT")

        return self._tried(agreed)

    def write(self, work: Callable[[Tx], T | ApiError], *, of: str | None = None, claim: str | None = None) -> T:
        """Runs changes in a transaction of their own and returns after it; see `Database.write`."""

        def change(connection: _Connection) -> tuple[T | ApiError, list[Callable[[], None]]]:
            tx = self._tx(connection)
            try:
                _begin(connection, of, claim)
                outcome = work(tx)
            except BaseException:
                _end(connection, "ROLLBACK")
                raise
            try:
                connection.execute("COMMIT")
            except psycopg.Error as error:
                metrics.DATABASE_ERRORS.add("outcome_unknown")
                raise OutcomeUnknownError("Whether the change holds is not known: the database went away.") from error
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

    @contextmanager
    def hold(self, name: str) -> Iterator[bool]:
        """A lock of one session, which ends with it; see `Database.hold`."""
        lock = _number(f"hold {name}")
        with ExitStack() as sessions:
            for left in reversed(range(_TRIES)):
                connection = sessions.enter_context(self._pooled(self._pool))
                try:
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
                    _end(connection, f"SELECT pg_advisory_unlock({lock})")

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
            metrics.DATABASE_CONNECTIONS.of(states),
            metrics.DATABASE_CONNECTIONS_LIMIT.now(self._connections),
            metrics.DATABASE_QUEUE.of({}),
        ]

    def close(self) -> None:
        """Ends every connection that is not in use."""
        self._pool.dispose()

    def _tx(self, connection: Any) -> Tx:
        return _Tx(connection, self._dialect)

    def _tried(self, work: Callable[[_Connection], T]) -> T:
        """Does work on a connection; anew where the connection was lost before its end, or the server undid it."""
        for left in reversed(range(_TRIES)):
            with self._pooled(self._pool) as connection:
                try:
                    return work(connection)
                except psycopg.Error as error:
                    lost = connection.closed
                    if left and (lost or isinstance(error, _UNDONE)):
                        metrics.DATABASE_RETRIES.add("lost" if lost else "undone")
                    else:
                        metrics.DATABASE_ERRORS.add("lost" if lost else "statement")
                        raise (DatabaseAwayError("The database went away.") if lost else error) from error
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


def _connect(url: str) -> Any:
    connection = psycopg.connect(
        url,
        autocommit=True,
        connect_timeout=_CONNECT_SECONDS,
        keepalives_idle=5,
        keepalives_interval=2,
        keepalives_count=3,
        tcp_user_timeout=15_000,
        application_name="workflow-api",
    )
    connection.execute(_SESSION)
    register_text(connection)
    return connection


def _begin(connection: _Connection, of: str | None, claim: str | None) -> None:
    """Begins a transaction that waits for those it must not run beside.

    Raises:
        ClaimedError: another transaction has the claim.
    """
    if of is None:
        locks = f"pg_advisory_xact_lock({_EVERYTHING}) IS NOT NULL"
    else:
        shared = f"pg_advisory_xact_lock_shared({_EVERYTHING}) IS NOT NULL"
        locks = f"{shared} AND pg_advisory_xact_lock({_number(of)}) IS NOT NULL"
    if claim is not None:
        locks = f"CASE WHEN pg_try_advisory_xact_lock({_number(claim)}) THEN {locks} ELSE false END"
    cursor = connection.execute(f"BEGIN; SELECT {locks}")
    cursor.nextset()
    row = cursor.fetchone()
    if row is None or not row[0]:
        raise ClaimedError


def _end(connection: _Connection, how: str) -> None:
    """Ends a transaction; a connection that cannot any more is closed."""
    try:
        connection.execute(how)
    except psycopg.Error:
        connection.close()


def _number(name: str) -> int:
    """The advisory lock of a name."""
    return int.from_bytes(hashlib.sha256(f"workflow-api {name}".encode()).digest()[:8], signed=True)


_EVERYTHING: Final = _number("everything")
