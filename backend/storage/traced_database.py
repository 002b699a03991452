"""A database whose transactions have spans, where traces are on.

A span covers a transaction, or reads made together, and names the kind and the table of each statement, but neither
text nor parameters. There are only spans below a recorded span.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from backend.storage.database import Database, DriverConnection, DriverCursor, GroupWork, Tx
from backend.storage.statements import Arguments, Command, GuardedInsert, Params, Query, RowT, SingleRoundTrip

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from telemetry.otel import Tracing

Item = TypeVar("Item")
T = TypeVar("T")

_STATEMENT: Final = re.compile(r'\s*(SELECT|INSERT|UPDATE|DELETE)\b(?:.*?\b(?:FROM|INTO)\s|\s)\s*"?(\w+)', re.DOTALL)
_NAMED: Final = 12
_OTHER: Final = "OTHER"


class TracedDatabase:
    """Wraps a `Database`, and records a span for each transaction."""

    def __init__(self, database: Database, tracing: "Tracing") -> None:
        self._database = database
        self._tracing = tracing
        self._system = "postgresql" if database.remote else "sqlite"
        self.remote = database.remote
        self.commit_marks = database.commit_marks
        self.listen = database.listen
        self.try_advisory_lock = database.try_advisory_lock
        self.reclaim_space = database.reclaim_space
        self.now = database.now
        self.healthy = database.healthy
        self.measured = database.measured
        self.close = database.close
        single = database.single_round_trip
        self.single_round_trip: SingleRoundTrip | None = None if single is None else _TracedRoundTrip(single, self)

    def read(self, work: Callable[[Tx], T]) -> T:
        """Runs reads; see `Database.read`."""
        return self.spanned(self._database.read, work) if self._tracing.recording else self._database.read(work)

    def snapshot(self, work: Callable[[Tx], T]) -> T:
        """Runs reads that agree; see `Database.snapshot`."""
        return self.spanned(self._database.snapshot, work) if self._tracing.recording else self._database.snapshot(work)

    def write(self, work: Callable[[Tx], T], *, lock_key: str | None = None, claim: str | None = None) -> T:
        """Runs changes; see `Database.write`."""
        write = partial(self._database.write, lock_key=lock_key, claim=claim)
        return self.spanned(write, work) if self._tracing.recording else write(work)

    def write_soon(
        self, work: Callable[[Tx], T], *, lock_key: str | None = None, claim: str | None = None
    ) -> Future[T]:
        """Queues changes; see `Database.write_soon`."""
        statements: list[str] = []
        span = self.begun()
        if span is not None:
            work = _collecting(work, statements)
        return self._ending(span, statements, lambda: self._database.write_soon(work, lock_key=lock_key, claim=claim))

    def write_grouped(
        self, work: GroupWork[Item, T], item: Item, *, lock_key: str | None = None, claim: str | None = None
    ) -> Future[T]:
        """Queues changes that are made together with others; see `Database.write_grouped`."""
        statements: list[str] = []
        span = self.begun()
        grouped = _GroupWork(work)
        return self._ending(
            span,
            statements,
            lambda: self._database.write_grouped(grouped, (item, statements), lock_key=lock_key, claim=claim),
        )

    def begun(self) -> "Span | None":
        """Begins a span below the present one; None if the present one is not recorded."""
        return self._tracing.begun("database", {"db.system.name": self._system})

    def spanned(self, run: Callable[[Callable[[Tx], T]], T], work: Callable[[Tx], T]) -> T:
        """Returns the result of `run(work)`, made in a span."""
        statements: list[str] = []
        span = self.begun()
        failure: BaseException | None = None
        try:
            return run(_collecting(work, statements))
        except BaseException as error:
            failure = error
            raise
        finally:
            self.end(span, statements, failure)

    def end(self, span: "Span | None", statements: Sequence[str], error: BaseException | None) -> None:
        """Ends a span, named for the statements."""
        if span is None:
            return
        distinct = list(dict.fromkeys(statements))
        if distinct:
            span.update_name(distinct[0] if len(distinct) == 1 else "BATCH")
            span.set_attributes(
                {
                    "db.operation.name": distinct[0].partition(" ")[0] if len(distinct) == 1 else "BATCH",
                    "db.query.summary": "; ".join(distinct[:_NAMED]),
                    "db.operation.batch.size": len(statements),
                }
            )
        if error is not None:
            self._tracing.end_by(span, error)
        span.end()

    def _ending(self, span: "Span | None", statements: list[str], queue: Callable[[], Future[T]]) -> Future[T]:
        """Queues changes, and ends the span when they are done, or cannot be queued."""
        try:
            change = queue()
        except BaseException as error:
            self.end(span, statements, error)
            raise
        if span is not None:
            change.add_done_callback(lambda done: self.end(span, statements, _failure(done)))
        return change


def _failure(change: Future[T]) -> BaseException | None:
    """Returns the error of changes, or of their cancellation; None if they succeeded."""
    return CancelledError() if change.cancelled() else change.exception()


class _TracedRoundTrip:
    """Wraps a `SingleRoundTrip`, and records a span for each call."""

    def __init__(self, make: SingleRoundTrip, database: TracedDatabase) -> None:
        self._make = make
        self._database = database

    def __call__(
        self,
        guarded: GuardedInsert[RowT],
        expected: RowT,
        rows: Mapping[str, Params | Sequence[Params]],
        *,
        lock_key: str,
        claim: str,
        **params: object,
    ) -> tuple[RowT, bool]:
        span = self._database.begun()
        failure: BaseException | None = None
        try:
            return self._make(guarded, expected, rows, lock_key=lock_key, claim=claim, **params)
        except BaseException as error:
            failure = error
            raise
        finally:
            inserts = [f"INSERT {inserted.table.name}" for inserted in guarded.inserts.values()]
            self._database.end(span, inserts, failure)


@dataclass(frozen=True, slots=True)
class _GroupWork(Generic[Item, T]):
    """Group work on items that each have a list for the statements; equal if the work is equal."""

    work: GroupWork[Item, T]

    def __call__(self, tx: Tx, items: Sequence[tuple[Item, list[str]]]) -> Sequence[T]:
        traced = _TracedTx(tx)
        results = self.work(traced, [item for item, _ in items])
        for _, statements in items:
            statements[:] = traced.statements
        return results


def _collecting(work: Callable[[Tx], T], statements: list[str]) -> Callable[[Tx], T]:
    """Returns `work` with statements of its last run collected in the list."""

    def collecting(tx: Tx) -> T:
        traced = _TracedTx(tx)
        try:
            return work(traced)
        finally:
            statements[:] = traced.statements

    return collecting


class _TracedTx(Tx):
    """Wraps a `Tx`, and collects the kind and table of each statement."""

    __slots__ = ("_tx", "statements")

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._dialect = tx._dialect  # noqa: SLF001 - of the same class
        self.statements: list[str] = []

    @property
    def connection(self) -> DriverConnection:
        """The driver's connection, for statements of one dialect."""
        return self._tx.connection

    @property
    def announced(self) -> set[str]:  # type: ignore[override]  # delegates to the wrapped Tx
        """See `Tx`."""
        return self._tx.announced

    @property
    def purges_deleted_content(self) -> bool:
        """See `Tx`."""
        return self._tx.purges_deleted_content

    @purges_deleted_content.setter
    def purges_deleted_content(self, value: bool) -> None:
        self._tx.purges_deleted_content = value

    @property
    def keeps_caches_valid(self) -> bool:
        """See `Tx`."""
        return self._tx.keeps_caches_valid

    @keeps_caches_valid.setter
    def keeps_caches_valid(self, value: bool) -> None:
        self._tx.keeps_caches_valid = value

    @property
    def changed_runs(self) -> set[tuple[str, str]]:  # type: ignore[override]  # delegates to the wrapped Tx
        """See `Tx`."""
        return self._tx.changed_runs

    def enqueue(self, command: Command, **params: object) -> None:
        """Runs a change without a result; see `Tx.enqueue`."""
        self.statements.append(_summary(command.text(self._dialect)))
        self._tx.enqueue(command, **params)

    def after_commit(self, action: Callable[[], None]) -> None:
        """Registers an action to call once this change is durable; see `Tx.after_commit`."""
        self._tx.after_commit(action)

    def take_after_commit(self) -> list[Callable[[], None]]:
        """Removes and returns the actions that wait for the commit."""
        return self._tx.take_after_commit()

    def each(self, query: Query[RowT], rows: Iterable[Params]) -> list[list[RowT]]:
        """Returns every row of a query for each set of parameters; see `Tx.each`."""
        self.statements.append(_summary(query.text(self._dialect)))
        return self._tx.each(query, rows)

    def _run_many(self, command: Command, text: str, arguments: Sequence[Arguments]) -> None:
        if arguments:
            self.statements.append(_summary(text))
            self._tx._run_many(command, text, arguments)  # noqa: SLF001 - of the same class

    def _execute(self, text: str, arguments: Arguments) -> DriverCursor:
        self.statements.append(_summary(text))
        return self._tx._execute(text, arguments)  # noqa: SLF001 - of the same class


@lru_cache(maxsize=4_096)
def _summary(text: str) -> str:
    """Returns the kind of a statement and the first table that it names."""
    found = _STATEMENT.match(text)
    return _OTHER if found is None else f"{found[1]} {found[2]}"
