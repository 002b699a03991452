"""Interface of the database for services, and the transaction that their SQL runs in."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from itertools import chain
from typing import Final, Protocol, TypeAlias, TypeVar, cast

from sqlalchemy import Dialect

from backend.storage.commits import CommitMarks, Listener
from backend.storage.statements import (
    Arguments,
    Command,
    Params,
    Query,
    RowInsert,
    RowT,
    ScalarQuery,
    SingleRoundTrip,
    Statement,
)
from telemetry import Family

Item = TypeVar("Item")
T = TypeVar("T")

# A driver releases the interpreter's lock for each statement, and then waits for a busy event loop to release it.
_ROWS_AT_ONCE: Final = (64, 16, 4)


class DatabaseUnavailableError(Exception):
    """The database cannot be reached, or cannot carry out a statement, now."""

    logged = False
    """True if the log has the reason already, as in an outage: further lines have no traceback."""


class OutcomeUnknownError(DatabaseUnavailableError):
    """The connection was lost during a commit: the changes may hold."""


class ClaimedError(Exception):
    """Another transaction has the claim."""


def key_of(key_id: str) -> str:
    """Returns the lock key of one API key."""
    return f"key {key_id}"


def run_of(run_id: str) -> str:
    """Returns the lock key of one run."""
    return f"run {run_id}"


def bind(statement: Statement, dialect: Dialect, params: Params) -> tuple[str, Arguments]:
    """Returns the SQL text of a statement and its arguments in order.

    Raises:
        KeyError: a parameter of the statement is missing.
    """
    text, names, fixed = statement.compiled.get(dialect.name) or statement.compile(dialect)
    return text, tuple(map({**fixed, **params}.__getitem__, names))


class DriverCursor(Protocol):
    """The result of a statement, as a database driver gives it."""

    @property
    def rowcount(self) -> int:
        """Number of rows that the statement changed."""

    def fetchone(self) -> Sequence[object] | None:
        """Returns the next row, or None."""

    def fetchall(self) -> Sequence[Sequence[object]]:
        """Returns all rows that are left."""

    def executemany(self, sql: str, arguments: Iterable[Sequence[object]], /) -> object:
        """Runs a statement once for each set of arguments."""


class DriverConnection(Protocol):
    """A database driver's connection."""

    def execute(self, sql: str, arguments: Sequence[object] = ..., /) -> DriverCursor:
        """Runs a statement and returns its cursor."""

    def cursor(self) -> DriverCursor:
        """Returns a cursor of its own."""


class Tx:
    """Runs statements on one connection.

    Changes whose number of rows does not matter go to `enqueue` or `many`, which cost no round trip.
    """

    __slots__ = (
        "_after_commit",
        "_connection",
        "_dialect",
        "announced",
        "changed_runs",
        "keeps_caches_valid",
        "purges_deleted_content",
    )

    def __init__(self, connection: DriverConnection, dialect: Dialect) -> None:
        self._connection = connection
        self._dialect = dialect
        self._after_commit: list[Callable[[], None]] = []
        self.announced: set[str] = set()
        """Names that listeners in all processes get once this transaction is durable."""
        # Set by work whose deleted content must not stay readable in the database's files.
        self.purges_deleted_content = False
        # Set by work that changes no data of cached answers; its commit gets no number in `CommitMarks`.
        self.keeps_caches_valid = False
        self.changed_runs: set[tuple[str, str]] = set()
        """Runs, by id and key, that this transaction changes alone; empty if it may change anything."""

    @property
    def connection(self) -> DriverConnection:
        """The driver's connection, for statements of one dialect."""
        return self._connection

    def first(self, query: Query[RowT], **params: object) -> RowT | None:
        """Returns the first row, or None."""
        text, arguments = bind(query, self._dialect, params)
        row = self._execute(text, arguments).fetchone()
        return None if row is None else query.make_row(row)

    def one(self, query: Query[RowT], **params: object) -> RowT:
        """Returns the first row of a query that always has one.

        Raises:
            LookupError: it has none.
        """
        text, arguments = bind(query, self._dialect, params)
        row = self._execute(text, arguments).fetchone()
        if row is None:
            raise LookupError("the query has no row")
        return query.make_row(row)

    def all(self, query: Query[RowT], **params: object) -> list[RowT]:
        """Returns every row."""
        text, arguments = bind(query, self._dialect, params)
        make_row = query.make_row
        return [make_row(row) for row in self._execute(text, arguments).fetchall()]

    def scalar(self, query: ScalarQuery[T], **params: object) -> T | None:
        """Returns the value in the first row, or None."""
        text, arguments = bind(query, self._dialect, params)
        row = self._execute(text, arguments).fetchone()
        return None if row is None else cast("T", row[0])

    def scalar_one(self, query: ScalarQuery[T], **params: object) -> T:
        """Returns the value in the first row of a query that always has one.

        Raises:
            LookupError: it has none.
        """
        text, arguments = bind(query, self._dialect, params)
        row = self._execute(text, arguments).fetchone()
        if row is None:
            raise LookupError("the query has no row")
        return cast("T", row[0])

    def scalars(self, query: ScalarQuery[T], **params: object) -> list[T]:
        """Returns the value in every row."""
        text, arguments = bind(query, self._dialect, params)
        return [cast("T", row[0]) for row in self._execute(text, arguments).fetchall()]

    def exists(self, query: ScalarQuery[T], **params: object) -> bool:
        """Returns whether the query has a row."""
        text, arguments = bind(query, self._dialect, params)
        return self._execute(text, arguments).fetchone() is not None

    def each(self, query: Query[RowT], rows: Iterable[Params]) -> list[list[RowT]]:
        """Returns every row of a query for each set of parameters, in one round trip."""
        return [self.all(query, **params) for params in rows]

    def run(self, command: Command, **params: object) -> int:
        """Runs a change and returns how many rows it touched."""
        text, arguments = bind(command, self._dialect, params)
        return self._execute(text, arguments).rowcount

    def enqueue(self, command: Command, **params: object) -> None:
        """Runs a change without a result: before the next statement with one, and at the latest with the commit."""
        self.run(command, **params)

    def many(self, command: Command, rows: Iterable[Params]) -> None:
        """Runs a change as `enqueue`, once for each set of parameters."""
        text, names, fixed = command.compiled.get(self._dialect.name) or command.compile(self._dialect)
        arguments = [tuple(map({**fixed, **params}.__getitem__, names)) for params in rows]
        if arguments:
            self._run_many(command, text, arguments)

    def insert(self, command: RowInsert[RowT], rows: Sequence[RowT]) -> None:
        """Inserts rows as `many`, in the columns that any of them has a value for."""
        if not rows:
            return
        values = {
            name: column
            for name, column in zip(command.fields, zip(*rows, strict=True), strict=True)
            if column[0] is not None or column.count(None) < len(column)
        }
        names = tuple(values)
        narrower = command.narrower.get(names) or command.of_columns(names)
        text, columns = bind(narrower, self._dialect, values)
        self._run_many(narrower, text, list(zip(*columns, strict=True)))

    def _run_many(self, command: Command, text: str, arguments: Sequence[Arguments]) -> None:
        done = 0
        for rows in _ROWS_AT_ONCE:
            while done + rows <= len(arguments):
                together = command.of_rows.get((text, rows))
                if together is None:
                    together = command.text_of_rows(text, rows)
                if not together:
                    break
                self._connection.execute(together, tuple(chain.from_iterable(arguments[done : done + rows])))
                done += rows
        if done < len(arguments):
            self._connection.cursor().executemany(text, arguments[done:])

    def after_commit(self, action: Callable[[], None]) -> None:
        """Registers an action to call once this change is durable; it must be quick and must not raise."""
        self._after_commit.append(action)

    def announce(self, name: str) -> None:
        """Sends a name to the listeners of the database in all processes once this change is durable."""
        self.announced.add(name)

    def changes_run(self, run_id: str, key_id: str) -> None:
        """Declares that this transaction changes a run, and nothing but the runs declared.

        Only for work that knows its whole transaction: answers about other runs stay cached. A run includes its row,
        steps, segments, events and approvals, and its key's counters and list of runs.
        """
        self.changed_runs.add((run_id, key_id))

    def _execute(self, text: str, arguments: Arguments) -> DriverCursor:
        return self._connection.execute(text, arguments)

    def take_after_commit(self) -> list[Callable[[], None]]:
        """Removes and returns the actions that wait for the commit."""
        actions, self._after_commit = self._after_commit, []
        return actions


GroupWork: TypeAlias = Callable[[Tx, Sequence[Item]], Sequence[T]]
"""Makes changes of one kind, one for each item in order, and returns a result for each.

If it raises for several items, it is run again for each item alone.
"""


class Database(Protocol):
    """Interface of a database, as services read and write it."""

    @property
    def remote(self) -> bool:
        """Returns whether a statement waits for a server, which an event loop must not do."""

    @property
    def single_round_trip(self) -> SingleRoundTrip | None:
        """Makes guarded inserts in one round trip; None if statements are no round trips."""

    @property
    def commit_marks(self) -> CommitMarks | None:
        """Marks of commits, except of `keeps_caches_valid` transactions; None if other processes commit as well."""

    def read(self, work: Callable[[Tx], T]) -> T:
        """Runs reads on this thread's connection, each statement by itself."""

    def snapshot(self, work: Callable[[Tx], T]) -> T:
        """Runs reads that must agree with one another in one read transaction."""

    def write(self, work: Callable[[Tx], T], *, lock_key: str | None = None, claim: str | None = None) -> T:
        """Runs changes in a transaction and returns their result after they are durable.

        Work that raises leaves nothing. It may be run more than once, of which one takes effect.

        Args:
            work: The changes.
            lock_key: Changes with different keys may run side by side, as those of `run_of(run_id)`. Without one, no
                other change runs beside this one, from the first statement of `work` on.
            claim: A name that one transaction at a time may have; it too is taken with the first statement.

        Raises:
            ClaimedError: another transaction has the claim.
            OutcomeUnknownError: the connection was lost before it was known whether the changes hold.
            DatabaseUnavailableError: the database cannot be reached, and nothing was changed.
        """

    def write_soon(
        self, work: Callable[[Tx], T], *, lock_key: str | None = None, claim: str | None = None
    ) -> Future[T]:
        """Writes as `write` does, without waiting for the commit unless the database is remote.

        The future cannot be cancelled. Its callbacks must be quick: they hold up the next commit.
        """

    def write_grouped(
        self, work: GroupWork[Item, T], item: Item, *, lock_key: str | None = None, claim: str | None = None
    ) -> Future[T]:
        """Writes as `write_soon` does; `work` may get the items of other changes with an equal `work` as well."""

    def listen(self, listener: Listener, name: str | None = None) -> None:
        """Calls the listener with the names that changes announce from now on, in this process and in others.

        With a `name` it is called only for that name, or if announcements may have been missed. A process that dies may
        lose its last announcements, so listeners also read now and then unprompted.
        """

    def try_advisory_lock(self, name: str) -> AbstractContextManager[bool]:
        """Takes a named lock for the context; yields whether this process alone has it.

        Work under the lock must be harmless when done twice: a process that lost the database has lost the lock too.

        Raises:
            DatabaseUnavailableError: the database cannot be reached.
        """

    def reclaim_space(self, may_go_on: Callable[[], bool]) -> None:
        """Frees disk space of deleted rows in small steps while `may_go_on`; does nothing if a server frees it."""

    def now(self) -> int:
        """Returns the database's own time in milliseconds since the epoch."""

    def healthy(self) -> bool:
        """Returns whether the database answers."""

    def measured(self) -> list[Family]:
        """Returns metrics of this process's side of the database, without a query. Thread-safe."""

    def close(self) -> None:
        """Ends every connection; changes that wait are made first."""
