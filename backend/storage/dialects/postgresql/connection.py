"""Connections to a PostgreSQL server: time-outs, deadlines beyond them, text with U+0000, and errors for the log.

Sessions that hold locks and do nothing are ended, as those of a process that was frozen within a transaction. The
server's own `idle_in_transaction_session_timeout` does not end them: it does not count after statements that were sent
in a pipeline, which begin every transaction of this service.
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

import psycopg
from psycopg import errors
from psycopg.rows import TupleRow
from psycopg.types.string import StrDumper, TextLoader
from sqlalchemy import Engine, create_engine
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from backend.storage.outage import RepeatedDatabaseWork
from backend.storage.waiting_callers import WaitingCaller

APPLICATION: Final = "workflow-api"
"""The name by which the server shows sessions of this service."""
Connection: TypeAlias = psycopg.Connection[TupleRow]
Cursor: TypeAlias = psycopg.Cursor[TupleRow]

_INTERVAL_SECONDS: Final = 0.5
_CANCEL_SECONDS: Final = 1.0
_MOST_CHARACTERS: Final = 300


@dataclass(frozen=True, slots=True)
class DatabaseTimeouts:
    """Time-outs of a connection, in seconds or `_ms`; callers wait for 15 s (edge.backend_seconds).

    No statement of the service takes a second by itself; one that does not end must not hold its locks for ever.
    """

    connect_seconds: int = 5
    pool_seconds: float = 3
    all_attempts_seconds: int = 11
    statement_ms: int = 9_000
    lock_ms: int = 8_000
    idle_ms: int = 60_000
    # Transactions of the service pause for milliseconds.
    blocking_seconds: float = 5


class _Socket(Protocol):
    """A connection with a socket, as psycopg's."""

    def fileno(self) -> int:
        """Returns the number of the socket."""

    def cancel_safe(self, *, timeout: float) -> None:
        """Ends the statement that the server carries out for the connection."""


class _Watched(NamedTuple):
    until: float
    connection: _Socket
    caller: WaitingCaller | None


class DeadlineWatch:
    """Breaks watched connections whose deadline has passed; a thread that waits for an answer then gets an error.

    Statements for a caller that has gone are ended on the server.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: dict[int, _Watched] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="deadlines", daemon=True)
        self._thread.start()

    @contextmanager
    def watched(self, connection: _Socket, until: float, caller: WaitingCaller | None = None) -> Iterator[None]:
        """Watches a connection until a time of the monotonic clock, until the caller has gone, or the context ends."""
        number = id(connection)
        with self._lock:
            self._watched[number] = _Watched(until, connection, caller)
        try:
            yield
        finally:
            # Under the lock, so that the connection is not broken after another thread has got it from the pool.
            with self._lock:
                self._watched.pop(number, None)
            if caller is not None:
                # Wait until a cancel under way has been sent: it must not reach the connection's next user.
                with caller.cancelling:
                    pass

    def stop(self) -> None:
        """Ends the watching thread."""
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(_INTERVAL_SECONDS):
            now = time.monotonic()
            left = []
            with self._lock:
                for number, watched in list(self._watched.items()):
                    if watched.until < now:
                        del self._watched[number]
                        break_connection(watched.connection)
                    elif watched.caller is not None and watched.caller.gone:
                        left.append(number)
            for number in left:
                # Deadlines are kept by this thread, too.
                if time.monotonic() > now + _CANCEL_SECONDS:
                    break
                self._cancel(number)

    def _cancel(self, number: int) -> None:
        with self._lock:
            watched = self._watched.get(number)
            if watched is None or watched.caller is None or not watched.caller.gone:
                return
            watched.caller.cancelling.acquire()
        try:
            watched.connection.cancel_safe(timeout=_CANCEL_SECONDS)
        except Exception:  # noqa: BLE001  # this thread keeps the deadlines of all
            break_connection(watched.connection)
        finally:
            watched.caller.cancelling.release()


def break_connection(connection: _Socket) -> None:
    """Breaks the connection of a thread that waits for the server, so that the thread gets an error."""
    with suppress(Exception), socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)


def connect(url: str, timeouts: DatabaseTimeouts, deadlines: DeadlineWatch) -> Connection:
    """Opens a connection that commits each statement by itself unless a transaction is begun."""
    connection: Connection = psycopg.connect(
        url,
        autocommit=True,
        # Statements have PostgreSQL's own placeholders, so psycopg need not parse them.
        cursor_factory=psycopg.RawCursor,
        connect_timeout=timeouts.connect_seconds,
        keepalives_idle=5,
        keepalives_interval=2,
        keepalives_count=3,
        tcp_user_timeout=timeouts.all_attempts_seconds * 1000,
        application_name=APPLICATION,
    )
    # A pooler may have accepted the connection without a server for it.
    with deadlines.watched(connection, time.monotonic() + timeouts.connect_seconds):
        # A transaction that waited for a lock must see all commits before it got the lock, whatever the server's
        # default.
        connection.execute(
            # Statements are short; the planner's estimates would have some of them compiled for a second.
            "SET default_transaction_isolation = 'read committed'; SET jit = off;"
            f"SET statement_timeout = {timeouts.statement_ms}; SET lock_timeout = {timeouts.lock_ms};"
            f"SET idle_in_transaction_session_timeout = {timeouts.idle_ms}"
        )
    register_text(connection)
    return connection


def engine_of(url: str) -> Engine:
    """Returns SQLAlchemy's engine, for migrations."""
    seconds = DatabaseTimeouts().connect_seconds
    return create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(url, connect_timeout=seconds))


if TYPE_CHECKING:
    import psycopg
    from psycopg.abc import Buffer

# A noncharacter, so that hardly any text has to be rewritten. "0" after it stands for U+0000, "1" for itself.
_ESCAPE: Final = "\ufffe"

_ESCAPED: Final = str.maketrans({"\0": f"{_ESCAPE}0", _ESCAPE: f"{_ESCAPE}1"})


def register_text(connection: "psycopg.Connection[Any]") -> None:
    """Makes the connection store and return every text unchanged, U+0000 included."""
    connection.adapters.register_dumper(str, _Dumper)
    for kind in ("text", "varchar"):
        connection.adapters.register_loader(kind, _Loader)


class _Dumper(StrDumper):
    def dump(self, obj: str) -> "Buffer | None":
        return super().dump(obj.translate(_ESCAPED) if "\0" in obj or _ESCAPE in obj else obj)


class _Loader(TextLoader):
    def load(self, data: "Buffer") -> bytes | str:
        text = super().load(data)
        if isinstance(text, str) and _ESCAPE in text:
            return text.replace(f"{_ESCAPE}0", "\0").replace(f"{_ESCAPE}1", _ESCAPE)
        return text


def error_summary(error: Exception) -> str:
    """Returns the first line of the error of the server or driver, with SQLSTATE if there is one.

    Further lines may quote statements. An error that does not concern the state of the server gives only its class.
    """
    if isinstance(error, PoolTimeoutError):
        return "all connections of this process are in use"
    said = type(error).__name__
    if isinstance(error, (psycopg.OperationalError, errors.ReadOnlySqlTransaction)):
        first = str(error).strip().partition("\n")[0]
        said = first.strip().rstrip(".")[:_MOST_CHARACTERS] or said
    sqlstate = error.sqlstate if isinstance(error, psycopg.Error) else None
    return f"{said} (SQLSTATE {sqlstate})" if sqlstate else said


# One interval and the longest idleness are together shorter than the time for which others wait for a lock.
_CHECK_SHARE: Final = 0.4
"""Interval of the checks, as a share of the longest idleness."""
# Sessions of other roles cannot be ended, and sessions of people are not.
_END_BLOCKING_SESSIONS: Final = """
SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND usename = current_user AND state LIKE 'idle in transaction%'
    AND (application_name = $1::text OR application_name LIKE 'dbos%')
    AND state_change < clock_timestamp() - make_interval(secs => $2::float8)
    AND pid IN (
        SELECT unnest(pg_blocking_pids(pid)) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'
    )
"""

_LOG = logging.getLogger(__name__)


class BlockingSessionWatch:
    """Ends sessions that others wait for after `idle_seconds` without a statement.

    Looks every few seconds, in a thread and over a connection of its own, which `connect` opens.
    """

    def __init__(self, connect: Callable[[], Connection], idle_seconds: float) -> None:
        self._connect = connect
        self._idle_seconds = idle_seconds
        self._connection: Connection | None = None
        self._ended = threading.Event()
        self._rounds = RepeatedDatabaseWork(
            _LOG, "Sessions that block others cannot be looked for", "Sessions that block others are looked for again"
        )
        self._thread = threading.Thread(target=self._run, name="blocking-sessions", daemon=True)

    def start(self) -> None:
        """Begins to look."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(_CHECK_SHARE * self._idle_seconds):
            try:
                self._end_blocking()
            except psycopg.OperationalError as error:
                # An outage of the database is logged elsewhere.
                _LOG.debug("The connection that looks for blocking sessions was lost: %s", error_summary(error))
                self._disconnect()
            except psycopg.Error as error:
                self._rounds.failed(error)
                self._disconnect()
            else:
                self._rounds.succeeded()
        self._disconnect()

    def _end_blocking(self) -> None:
        if self._connection is None:
            self._connection = self._connect()
        for pid, _ in self._connection.execute(_END_BLOCKING_SESSIONS, [APPLICATION, self._idle_seconds]).fetchall():
            _LOG.warning("The database session %d was ended: others waited for its locks, and it did nothing", pid)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
