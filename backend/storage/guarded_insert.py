"""Inserts into several tables that take place only if a query returns what the caller expects."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol

from sqlalchemy import SelectBase, Table

from backend.storage.statements import Params, RowT


@dataclass(frozen=True, slots=True, eq=False)
class InsertedRows:
    """The columns that are written of one table.

    Args:
        table: Where to.
        columns: What is written.
        many: Whether the caller gives a list of rows, not one row.
        added: A column whose value is added to that of the row that has the same primary key already.
    """

    table: Table
    columns: Sequence[str]
    many: bool = False
    added: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class GuardedInsert(Generic[RowT]):
    """Inserts, and the query whose only row decides whether they take place.

    It is sent again where the connection was lost, so that its own rows must keep it from taking place twice.

    Args:
        row: The class of the query's row.
        query: The query.
        equal: Columns that must be as expected.
        at_most: Columns that must not be higher than expected; null counts as 0.
        null: Columns that must be null.
        inserts: What is inserted, by a name of the caller's choice.
    """

    row: type[RowT]
    query: SelectBase
    equal: Sequence[str]
    at_most: Sequence[str]
    null: Sequence[str]
    inserts: Mapping[str, InsertedRows]


class SingleRoundTrip(Protocol):
    """Makes a guarded insert in one round trip."""

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
        """Returns the query's row, and whether the rows were inserted, once that is durable.

        Args:
            guarded: The inserts and their query.
            expected: What the query's row is compared with.
            rows: The row or rows of each insert, by its name.
            lock_key: As of `Database.write`.
            claim: As of `Database.write`.
            params: The parameters of the query.

        Raises:
            ClaimedError: another transaction has the claim.
            DatabaseUnavailableError: the database cannot be reached; the rows may be inserted.
        """
