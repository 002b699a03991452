"""Transactions that send statements without a result together with the next one that has one."""

from collections.abc import Iterable, Sequence
from typing import Final

import psycopg
from psycopg import errors
from psycopg.pq import TransactionStatus
from sqlalchemy import Dialect

from backend import metrics
from backend.storage.database import ClaimedError, OutcomeUnknownError, Tx
from backend.storage.dialects.postgresql.connection import Connection, Cursor
from backend.storage.dialects.postgresql.words import words_of
from backend.storage.outage import OUTAGE
from backend.storage.statements import Arguments, Command, Params, Query, RowT

Bound = tuple[str, Sequence[object] | None]
"""The text of a statement and its arguments."""

SNAPSHOT: Final[Sequence[Bound]] = (("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", None),)


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
        self._waiting.append(command.bind(self._dialect, params))

    def _run_many(self, command: Command, text: str, arguments: Sequence[Arguments]) -> None:  # noqa: ARG002 - the base's
        """Keeps a change, once for each set of arguments, for the next round trip."""
        self._waiting += [(text, values) for values in arguments]

    def each(self, query: Query[RowT], rows: Iterable[Params]) -> list[list[RowT]]:
        """Returns every row of a query for each set of parameters, in one round trip."""
        bound = [query.bind(self._dialect, params) for params in rows]
        with self._pipelined.pipeline():
            cursors = [self._execute(text, arguments) for text, arguments in bound]
        return [[query.make_row(row) for row in cursor.fetchall()] for cursor in cursors]

    def commit(self) -> None:
        """Ends the transaction with what still waits.

        Raises:
            InFailedSqlTransaction: work went on after a statement had failed.
            OutcomeUnknownError: the connection was lost before it was known whether the changes hold.
        """
        if self._opening:
            if not self._waiting:
                return
            # Nothing has been sent: a connection that was lost long ago is found before anything can be in doubt.
            self._execute(*self._waiting.pop())
        try:
            ended = self._execute("COMMIT")
        except psycopg.Error as error:
            # The driver's own error, as of a connection that is out of step, says nothing of the commit.
            if error.sqlstate is not None and not self._pipelined.closed:
                raise
            metrics.DATABASE_ERRORS.add("outcome_unknown")
            OUTAGE.failed(words_of(error))
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
    """Ends the transaction that was begun, if one was."""
    if connection.info.transaction_status != TransactionStatus.IDLE:
        end(connection, how)


def end(connection: Connection, how: str) -> None:
    """Ends what was begun by a statement; closes a connection on which that fails."""
    try:
        connection.execute(how)
    except psycopg.Error:
        connection.close()
