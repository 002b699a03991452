"""SQL of the run search: by the beginning of an id and by label; reads further columns and approvals of found runs."""

from functools import cache
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Select,
    Text,
    Tuple,
    bindparam,
    cast,
    func,
    literal_column,
    select,
    tuple_,
)

from backend.services.runs.list_sql import RunSummaryRow
from backend.services.runs.rules import RunFilters
from backend.services.runs.sql import STARTED_BY
from backend.storage.database import Tx
from backend.storage.statements import Query, RowSelect, select_row
from backend.storage.tables.model_usage import model_usage
from backend.storage.tables.runs import NO_CHILD, run_labels, runs, status_in
from backend.storage.tables.segments import approvals

MOST_EXAMINED: Final = 2_000
"""Most runs with a label that one page of results examines."""

MAX_ERROR_CHARS: Final = 300
"""Most characters of the error of a found run."""

# A prefix with this suffix sorts behind every id with that prefix: ids end in lower-case letters and digits.
_AFTER_ALL: Final = "z" * 32


class FoundRunPosition(NamedTuple):
    """A position in the order of the run list."""

    created_at: int
    run_id: str


class FoundRunRow(NamedTuple):
    """Columns of a found run beside its summary: key or person that started it, error, and use of models."""

    key_id: str
    started_by: str | None
    error_code: str | None
    error_start: str | None
    model_calls: int
    input_tokens: int
    output_tokens: int


class CostRow(NamedTuple):
    """Known cost of a run's calls of models, and the calls whose price is unknown."""

    cost_microusd: int
    unpriced_calls: int


class ApprovalTimesRow(NamedTuple):
    """Times of the request and the decision of an approval."""

    requested_at: int
    decided_at: int | None


def _sum(summed: ColumnElement[int]) -> ColumnElement[int]:
    # A sum on PostgreSQL is a decimal number, and null for no rows.
    return cast(func.coalesce(summed, literal_column("0")), BigInteger)


_ERROR_START: Final = func.substr(runs.c.error_message, literal_column("1"), literal_column(str(MAX_ERROR_CHARS + 1)))
_FOUND = Query(
    FoundRunRow,
    select_row(FoundRunRow, runs, started_by=STARTED_BY, error_start=_ERROR_START).where(
        runs.c.run_id == bindparam("of")
    ),
)
_UNPRICED: Final = func.sum(model_usage.c.model_calls).filter(model_usage.c.cost_microusd.is_(None))
_COST = Query(
    CostRow,
    select_row(
        CostRow,
        cost_microusd=_sum(func.sum(model_usage.c.cost_microusd)),
        unpriced_calls=_sum(_UNPRICED),
    ).where(model_usage.c.run_id == bindparam("of")),
)
_APPROVAL_TIMES = Query(
    ApprovalTimesRow, select_row(ApprovalTimesRow, approvals).where(approvals.c.run_id == bindparam("of"))
)


def by_id(
    tx: Tx, start: str, key_id: str | None, filters: RunFilters, after: tuple[int, str] | None, limit: int
) -> list[RunSummaryRow]:
    """Returns the first runs, in the order of `filters`, whose id begins with `start`; ids sort by time."""
    given = _given(key_id, filters)
    bounds = filters.bounds(after) | {"limit": limit, "first": start, "last": start + _AFTER_ALL}
    return tx.all(_by_id(frozenset(given), filters.statuses, filters.oldest_first), **given, **bounds)


def by_label(
    tx: Tx,
    name: str | None,
    value: str,
    key_id: str | None,
    filters: RunFilters,
    after: tuple[int, str] | None,
    limit: int,
) -> tuple[list[RunSummaryRow], FoundRunPosition | None]:
    """Returns the first runs with a label, and the position where the search stopped, None if it found enough."""
    given = _given(key_id, filters)
    label = {"value": value} | ({} if name is None else {"name": name})
    bounds = filters.bounds(after) | {"most": MOST_EXAMINED}
    statement = _by_label(frozenset(given), filters.statuses, name is not None, filters.oldest_first)
    rows = tx.all(statement, **given, **label, **bounds, limit=limit)
    if len(rows) >= limit:
        return rows, None
    return rows, tx.first(_last_examined(name is not None, filters.oldest_first), **label, **bounds)


def more_of(tx: Tx, run_ids: list[str]) -> list[FoundRunRow]:
    """Returns further columns of each of these runs, which must exist."""
    return [found for (found,) in tx.each(_FOUND, [{"of": run_id} for run_id in run_ids])]


def costs(tx: Tx, run_ids: list[str]) -> list[CostRow]:
    """Returns the cost of the own steps of each of these runs."""
    return [found for (found,) in tx.each(_COST, [{"of": run_id} for run_id in run_ids])]


def approval_times(tx: Tx, run_ids: list[str]) -> list[list[ApprovalTimesRow]]:
    """Returns the times of approvals of each of these runs."""
    return tx.each(_APPROVAL_TIMES, [{"of": run_id} for run_id in run_ids])


def _given(key_id: str | None, filters: RunFilters) -> dict[str, str]:
    return filters.equalities() | ({} if key_id is None else {"key_id": key_id})


@cache
def _by_id(equal: frozenset[str], statuses: tuple[str, ...], oldest_first: bool) -> Query[RunSummaryRow]:
    within = (runs.c.run_id >= bindparam("first", type_=Text), runs.c.run_id < bindparam("last", type_=Text))
    position = tuple_(runs.c.created_at, runs.c.run_id)
    found = _filtered(select_row(RunSummaryRow, runs).where(*within, *_between(position)), equal, statuses)
    found = found.order_by(*_in_order(oldest_first, runs.c.run_id)).limit(bindparam("limit"))
    return Query(RunSummaryRow, found.with_hint(runs, "INDEXED BY sqlite_autoindex_runs_1", "sqlite"))


@cache
def _by_label(
    equal: frozenset[str], statuses: tuple[str, ...], named: bool, oldest_first: bool
) -> Query[RunSummaryRow]:
    labelled = _labelled(named, oldest_first).limit(bindparam("most")).subquery()
    found = select_row(RunSummaryRow, runs).select_from(labelled).join(runs, runs.c.run_id == labelled.c.run_id)
    order = _in_order(oldest_first, labelled.c.created_at, labelled.c.run_id)
    ordered = _filtered(found, equal, statuses).order_by(*order)
    return Query(RunSummaryRow, ordered.limit(bindparam("limit")))


@cache
def _last_examined(named: bool, oldest_first: bool) -> Query[FoundRunPosition]:
    # The last examined run; no row if fewer runs have the label.
    last = bindparam("most", type_=BigInteger) - literal_column("1")
    return Query(FoundRunPosition, _labelled(named, oldest_first).limit(literal_column("1")).offset(last))


def _labelled(named: bool, oldest_first: bool) -> "Select[tuple[int, str]]":
    position = tuple_(run_labels.c.created_at, run_labels.c.run_id)
    query = select(run_labels.c.created_at, run_labels.c.run_id).where(
        run_labels.c.value == bindparam("value", type_=Text), *_between(position)
    )
    if named:
        query = query.where(run_labels.c.name == bindparam("name", type_=Text))
    return query.order_by(*_in_order(oldest_first, run_labels.c.created_at, run_labels.c.run_id))


def _in_order(oldest_first: bool, *columns: ColumnElement[Any]) -> list[ColumnElement[Any]]:
    return [column.asc() if oldest_first else column.desc() for column in columns]


def _between(position: Tuple) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return position < _bound("upper"), position > _bound("lower")


def _bound(which: str) -> Tuple:
    return tuple_(bindparam(f"{which}_created_at", type_=BigInteger), bindparam(f"{which}_run_id", type_=Text))


def _filtered(query: RowSelect, equal: frozenset[str], statuses: tuple[str, ...]) -> RowSelect:
    query = query.where(NO_CHILD, *(runs.c[name] == bindparam(name, type_=Text) for name in sorted(equal)))
    return query.where(status_in(*statuses)) if statuses else query
