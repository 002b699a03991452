"""Transactions on PostgreSQL: pipelined statements, advisory locks, and guarded inserts in one round trip."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Final

import psycopg
from psycopg import errors
from psycopg.pq import TransactionStatus
from sqlalchemy import CTE, ColumnElement, Dialect, bindparam, cast, func, literal_column, select
from sqlalchemy.dialects.postgresql import ARRAY, insert

from backend.common import metrics
from backend.storage.database import ClaimedError, OutcomeUnknownError, Tx, bind
from backend.storage.dialects.postgresql.connection import Connection, Cursor, error_summary
from backend.storage.outage import OUTAGE
from backend.storage.statements import Arguments, Command, GuardedInsert, InsertedRows, Params, Query, RowT, Statement

Bound = tuple[str, Sequence[object] | None]
"""The text of a statement and its arguments."""

SNAPSHOT: Final[Sequence[Bound]] = (("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", None),)

_SETTING: Final = "workflow_api.locks"

# A setting for the rest of the transaction, which `has_locks` reads.
_SET_RESULT: Final = f"SELECT set_config('{_SETTING}', CASE WHEN {{}} THEN 'held' ELSE 'claimed' END, true)"

_ZERO: Final[ColumnElement[int]] = literal_column("0")
_EXPECTED: Final = "expected"


class PipelinedTx(Tx):
    """A `Tx` whose statements without a result wait for the next statement, and share its round trip.

    `opening` goes before the first statement: it begins a transaction, and its last statement takes locks, if any.
    """

    __slots__ = ("_opening", "_pipelined", "_waiting")

    def __init__(self, connection: Connection, dialect: Dialect, opening: Sequence[Bound] = ()) -> None:
        super().__init__(connection, dialect)
        self._pipelined = connection
        self._opening = opening
        self._waiting: list[Bound] = []

    def enqueue(self, command: Command, **params: object) -> None:
        """Keeps a change for the next round trip."""
        self._waiting.append(bind(command, self._dialect, params))

    def _run_many(self, command: Command, text: str, arguments: Sequence[Arguments]) -> None:  # noqa: ARG002 - the base's
        """Keeps a change, once for each set of arguments, for the next round trip."""
        self._waiting += [(text, values) for values in arguments]

    def each(self, query: Query[RowT], rows: Iterable[Params]) -> list[list[RowT]]:
        """Returns every row of a query for each set of parameters, in one round trip."""
        bound = [bind(query, self._dialect, params) for params in rows]
        with self._pipelined.pipeline():
            cursors = [self._execute(text, arguments) for text, arguments in bound]
        return [[query.make_row(row) for row in cursor.fetchall()] for cursor in cursors]

    def commit(self) -> None:
        """Sends the statements that still wait, and commits.

        Raises:
            InFailedSqlTransaction: work went on after a statement had failed.
            OutcomeUnknownError: the connection was lost before it was known whether the changes hold.
        """
        if self._opening:
            if not self._waiting:
                return
            # Nothing has been sent yet, so a connection that was lost long ago is found before the outcome can be in
            # doubt.
            self._execute(*self._waiting.pop())
        try:
            ended = self._execute("COMMIT")
        except psycopg.Error as error:
            # The driver's own error, such as for a connection out of step, does not tell the outcome of the commit.
            if error.sqlstate is not None and not self._pipelined.closed:
                raise
            metrics.DATABASE_ERRORS.add("outcome_unknown")
            OUTAGE.failed(error_summary(error))
            unknown = OutcomeUnknownError(
                "Whether the change holds is not known: the connection to the database was lost."
            )
            unknown.logged = True
            raise unknown from error
        if ended.statusmessage == "ROLLBACK":
            raise errors.InFailedSqlTransaction("a statement failed before the commit, which undid all of them")

    def _execute(self, text: str, arguments: Sequence[object] | None = None) -> Cursor:
        connection = self._pipelined
        if not self._opening and not self._waiting:
            return connection.execute(text, arguments)
        opening, waiting = self._opening, self._waiting
        self._opening, self._waiting = (), []
        with connection.pipeline():
            opened = [connection.execute(*bound) for bound in opening]
            for bound in waiting:
                connection.execute(*bound)
            cursor = connection.execute(text, arguments)
        if opened and opened[-1].description is not None and not opened[-1].fetchall()[0][0]:
            raise ClaimedError
        return cursor


def end_transaction(connection: Connection, how: str) -> None:
    """Ends the transaction by the statement `how`, if one was begun."""
    if connection.info.transaction_status != TransactionStatus.IDLE:
        end(connection, how)


def end(connection: Connection, how: str) -> None:
    """Runs the ending statement `how`; closes a connection on which it fails."""
    try:
        connection.execute(how)
    except psycopg.Error:
        connection.close()


def lock_number(name: str) -> int:
    """Returns the number of the advisory lock of a name."""
    return int.from_bytes(hashlib.sha256(f"workflow-api {name}".encode()).digest()[:8], signed=True)


_EVERYTHING: Final = lock_number("everything")


def take_locks(lock_key: str | None, claim: str | None) -> tuple[str, list[int]]:
    """Returns a query, and its arguments, that waits for the locks; it gives false if the claim is taken."""
    locks, numbers = _locks(lock_key, claim)
    return f"SELECT {locks}", numbers


def take_locks_for_next(lock_key: str, claim: str) -> tuple[str, list[int]]:
    """Returns a query as `take_locks`, for a statement in the same transaction that begins with `has_locks`.

    It gives 'held', or 'claimed' if another transaction has the claim.
    """
    locks, numbers = _locks(lock_key, claim)
    return _SET_RESULT.format(locks), numbers


def has_locks() -> ColumnElement[bool]:
    """Returns the condition that `take_locks_for_next` got the locks."""
    return literal_column(f"current_setting('{_SETTING}', true) = 'held'")


def _locks(lock_key: str | None, claim: str | None) -> tuple[str, list[int]]:
    """Returns an expression that takes the locks, false if the claim is taken, and its arguments."""
    if lock_key is None:
        locks, numbers = "pg_advisory_xact_lock($1::bigint) IS NOT NULL", [_EVERYTHING]
    else:
        shared = "pg_advisory_xact_lock_shared($1::bigint) IS NOT NULL"
        locks = f"{shared} AND pg_advisory_xact_lock($2::bigint) IS NOT NULL"
        numbers = [_EVERYTHING, lock_number(lock_key)]
    if claim is not None:
        numbers.append(lock_number(claim))
        locks = f"CASE WHEN pg_try_advisory_xact_lock(${len(numbers)}::bigint) THEN {locks} ELSE false END"
    return locks, numbers


@cache
def guarded_statement(guarded: GuardedInsert[RowT]) -> Statement:
    """Returns the statement of a guarded insert: its row is the query's, then true if rows were inserted, else null.

    It inserts nothing unless the transaction has its locks; see `take_locks_for_next`.
    """
    met = guarded.query.cte("met")
    fits = (
        select(literal_column("true").label("yes"))
        .select_from(met)
        .where(
            has_locks(),
            *(met.c[name].is_(None) for name in guarded.null),
            *(met.c[name].is_not_distinct_from(_given(_EXPECTED, met.c[name])) for name in guarded.equal),
            *(func.coalesce(met.c[name], _ZERO) <= _given(_EXPECTED, met.c[name]) for name in guarded.at_most),
        )
        .cte("fits")
    )
    return Statement(
        select(met, select(fits.c.yes).scalar_subquery().label("fits")).add_cte(
            *(_insert(name, inserted, fits) for name, inserted in guarded.inserts.items())
        )
    )


def guarded_params(
    guarded: GuardedInsert[RowT], expected: RowT, rows: Mapping[str, Params | Sequence[Params]]
) -> dict[str, object]:
    """Returns the parameters of the statement, without the parameters of the query."""
    given = {f"{_EXPECTED}_{name}": value for name, value in expected._asdict().items()}
    for name, inserted in guarded.inserts.items():
        row = rows[name]
        if isinstance(row, Mapping):
            given |= {f"{name}_{column}": row[column] for column in inserted.columns}
        else:
            given |= {f"{name}_{column}": [each[column] for each in row] for column in inserted.columns}
    return given


def _insert(name: str, inserted: InsertedRows, fits: CTE) -> CTE:
    table = inserted.table
    given = _given_each if inserted.many else _given
    rows = select(*(given(name, table.c[column]) for column in inserted.columns)).select_from(fits)
    clause = insert(table).from_select(inserted.columns, rows)
    if inserted.added is not None:
        column = table.c[inserted.added]
        clause = clause.on_conflict_do_update(
            index_elements=list(table.primary_key.columns), set_={column.name: column + _given(name, column)}
        )
    return clause.cte(f"new_{name}")


def _given(prefix: str, column: ColumnElement[object]) -> ColumnElement[object]:
    """Returns a parameter with its type, which PostgreSQL does not infer in a query."""
    return cast(bindparam(f"{prefix}_{column.key}"), column.type)


def _given_each(prefix: str, column: ColumnElement[object]) -> ColumnElement[object]:
    """Returns a parameter as `_given`, for a list of which every member is a row."""
    return func.unnest(cast(bindparam(f"{prefix}_{column.key}"), ARRAY(column.type)))
