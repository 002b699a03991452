"""Guarded inserts as one statement, which needs one round trip."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

from sqlalchemy import CTE, ColumnElement, bindparam, cast, func, literal_column, select
from sqlalchemy.dialects.postgresql import ARRAY, insert

from backend.storage.dialects.postgresql.locks import has_locks
from backend.storage.guarded_insert import GuardedInsert, InsertedRows
from backend.storage.statements import Params, RowT, Statement

_ZERO: Final[ColumnElement[int]] = literal_column("0")
_EXPECTED: Final = "expected"


@cache
def guarded_statement(guarded: GuardedInsert[RowT]) -> Statement:
    """Returns the statement: its row is the query's, with true after it if the rows were inserted, else null.

    It inserts nothing unless the transaction has its locks; see `locks.take_locks_for_next`.
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
    """Returns the parameters of the statement, but for those of the query."""
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
    """A parameter with its type, which PostgreSQL does not infer in a query."""
    return cast(bindparam(f"{prefix}_{column.key}"), column.type)


def _given_each(prefix: str, column: ColumnElement[object]) -> ColumnElement[object]:
    """A parameter as `_given`, for a list of which every member is a row."""
    return func.unnest(cast(bindparam(f"{prefix}_{column.key}"), ARRAY(column.type)))
