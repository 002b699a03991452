"""Reading and writing: what every store uses, whatever the database."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from sqlalchemy import ColumnElement, Dialect, literal_column

from backend.errors import ApiError
from backend.storage.statements import Statement
from telemetry import Family

T = TypeVar("T")


class DatabaseAwayError(Exception):
    """The database cannot be reached now."""


class OutcomeUnknownError(DatabaseAwayError):
    """The database went away in the middle of a commit: the changes may hold."""


class ClaimedError(Exception):
    """Another transaction has the claim."""


def key_of(key_id: str) -> str:
    """Names what is of one API key."""
    return f"key {key_id}"


def run_of(run_id: str) -> str:
    """Names what is of one run."""
    return f"run {run_id}"


class DriverConnection(Protocol):
    """What a database driver's connection offers."""

    def execute(self, sql: str, arguments: Any, /) -> Any:
        """Runs a statement and returns its cursor."""

    def executemany(self, sql: str, arguments: Iterable[Any], /) -> Any:
        """Runs a statement once for each set of arguments."""


class Tx:
    """Runs statements on one connection; a row is a named tuple of its columns.

    A change whose rows nobody counts is best given to `later` or `many`: it costs no round trip of its own.
    """

    __slots__ = ("_after_commit", "_connection", "_dialect", "leaves_no_trace")

    def __init__(self, connection: DriverConnection, dialect: Dialect) -> None:
        self._connection: Any = connection
        self._dialect = dialect
        self._after_commit: list[Callable[[], None]] = []
        # Set by work whose deleted content must not stay readable in the database's files.
        self.leaves_no_trace = False

    @property
    def connection(self) -> Any:
        """The driver's connection, for what one kind of database alone can do."""
        return self._connection

    def one(self, statement: Statement, **params: object) -> Any:
        """The first row, or None."""
        text, arguments = statement.prepare(self._dialect, params)
        cursor = self._execute(text, arguments)
        row = cursor.fetchone()
        if row is None:
            return None
        return statement.row_maker(cursor)(row)

    def all(self, statement: Statement, **params: object) -> list[Any]:
        """Every row."""
        text, arguments = statement.prepare(self._dialect, params)
        cursor = self._execute(text, arguments)
        rows = cursor.fetchall()
        if not rows:
            return rows  # type: ignore[no-any-return]  # the driver's own empty list
        make = statement.row_maker(cursor)
        return [make(row) for row in rows]

    def each(self, statement: Statement, rows: Iterable[Mapping[str, object]]) -> list[list[Any]]:
        """Every row of a query for each set of parameters, together in one round trip."""
        return [self.all(statement, **params) for params in rows]

    def run(self, statement: Statement, **params: object) -> int:
        """Runs a change and returns how many rows it touched."""
        text, arguments = statement.prepare(self._dialect, params)
        return int(self._execute(text, arguments).rowcount)

    def enqueue(self, statement: Statement, **params: object) -> None:
        """Runs a change of which nothing is to be told: in its turn, and at the latest with the commit."""
        self.run(statement, **params)

    def many(self, statement: Statement, rows: Iterable[Mapping[str, object]]) -> None:
        """As `later`, once for each set of parameters."""
        text, arguments = statement.prepare_many(self._dialect, rows)
        if arguments:
            self._connection.executemany(text, arguments)

    def after_commit(self, action: Callable[[], None]) -> None:
        """Has `action` run once this change is durable; it must be quick and must not raise."""
        self._after_commit.append(action)

    def _execute(self, text: str, arguments: Sequence[Any]) -> Any:
        return self._connection.execute(text, arguments)

    def take_after_commit(self) -> list[Callable[[], None]]:
        """Hands over the actions that wait for the commit."""
        actions, self._after_commit = self._after_commit, []
        return actions


class SingleRoundTrip(Protocol):
    """Makes a change of one statement in one round trip."""

    def __call__(self, statement: Statement, *, lock_key: str, claim: str, **params: object) -> Any:
        """Runs a statement as a change of its own, and returns its row after that is durable.

        It must change nothing unless `has_locks()`, and nothing where it was carried out before: it is sent anew where
        the connection was lost.

        Raises:
            ClaimedError: another transaction has the claim.
            DatabaseAwayError: the database cannot be reached; the change may hold.
        """


def has_locks() -> ColumnElement[bool]:
    """Condition of a statement for `AtOnce`: it has what `of` and `claim` name."""
    return literal_column("current_setting('workflow_api.locks', true) = 'held'")


class Database(Protocol):
    """A database that stores read from and write to."""

    @property
    def single_round_trip(self) -> SingleRoundTrip | None:
        """For a change that would be several round trips; None where there are none to be saved."""

    @property
    def commits(self) -> int | None:
        """How many changes were committed so far, each counted before it is told; None where others commit as well."""

    def read(self, work: Callable[[Tx], T]) -> T:
        """Runs reads on this thread's connection, each statement by itself."""

    def snapshot(self, work: Callable[[Tx], T]) -> T:
        """Runs reads that must agree with one another in one read transaction."""

    def write(self, work: Callable[[Tx], T | ApiError], *, lock_key: str | None = None, claim: str | None = None) -> T:
        """Runs changes in a transaction and returns after they are durable.

        Work that returns an ApiError keeps what it wrote, and the error is raised here; work that raises leaves
        nothing. It may be run more than once, though only one of them holds.

        Args:
            work: The changes.
            lock_key: What alone they are of, as `run_of(run_id)`: they may then go on beside changes of something else.
                Without it nothing is changed beside them, from the first statement of `work` on.
            claim: A name that one transaction at a time may have; it too is asked for with the first statement.

        Raises:
            ClaimedError: another transaction has the claim.
            OutcomeUnknownError: the database went away before it told whether the changes hold.
            DatabaseAwayError: the database cannot be reached, and nothing was changed.
        """

    def hold(self, name: str) -> AbstractContextManager[bool]:
        """Whether this process alone has the name, for as long as the context lasts.

        What is done under it must be harmless when done twice: a process that lost the database has lost the name too.

        Raises:
            DatabaseAwayError: the database cannot be reached.
        """

    def reclaim_space(self, may_go_on: Callable[[], bool]) -> None:
        """Gives disk space of deleted rows back in small steps, as long as `may_go_on`; nothing where a server does."""

    def now(self) -> int:
        """The database's own clock: milliseconds since the epoch."""

    def healthy(self) -> bool:
        """Whether the database answers."""

    def measured(self) -> list[Family]:
        """What tells of its state; from any thread, without asking it."""

    def close(self) -> None:
        """Ends every connection; changes that wait are done first."""
