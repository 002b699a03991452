"""SQL of the run search: by beginning of the id, label and starter; further columns and approvals of found runs."""

from functools import cache
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Select,
    Text,
    Tuple,
    and_,
    bindparam,
    cast,
    func,
    literal_column,
    or_,
    select,
    tuple_,
)

from backend.services.runs.list_sql import RunSummaryRow
from backend.services.runs.rules import RunFilters
from backend.services.runs.sql import STARTED_BY
from backend.storage.database import Tx
from backend.storage.statements import Query, RowSelect, select_row
from backend.storage.tables.deployment import audit_records
from backend.storage.tables.model_usage import model_usage
from backend.storage.tables.runs import NO_CHILD, run_labels, runs, status_in
from backend.storage.tables.segments import approvals

MOST_EXAMINED: Final = 2_000
"""Most runs with a label, or of a starter, that one page of results examines."""

MAX_ERROR_CHARS: Final = 300
"""Most characters of the error of a found run."""

# A prefix with this suffix sorts behind every id with that prefix: ids end in lower-case letters and digits.
_AFTER_ALL: Final = "z" * 32
_LEAST_OF_AN_ID: Final = len("run_") + 6


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


class KnownCostRow(NamedTuple):
    """Known cost of a run's calls of models."""

    run_id: str
    cost_microusd: int


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
_RUN_IDS: Final = tuple(f"run_id_{number}" for number in range(100))
_KNOWN_COSTS = Query(
    KnownCostRow,
    select_row(KnownCostRow, model_usage, cost_microusd=_sum(func.sum(model_usage.c.cost_microusd)))
    .where(model_usage.c.run_id.in_([bindparam(name) for name in _RUN_IDS]), model_usage.c.cost_microusd.is_not(None))
    .group_by(model_usage.c.run_id),
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


def by_starter(
    tx: Tx,
    actor: str,
    text: str,
    key_id: str | None,
    filters: RunFilters,
    after: tuple[int, str] | None,
    limit: int,
) -> tuple[list[RunSummaryRow], FoundRunPosition | None]:
    """Returns the first audited runs of a starter that match a text, if any; else as `by_label`."""
    given = _given(key_id, filters)
    bounds = filters.bounds(after) | {"most": MOST_EXAMINED, "actor": actor}
    statement = _by_starter(frozenset(given), filters.statuses, bool(text), filters.oldest_first)
    rows = tx.all(statement, **given, **(_matching(text) if text else {}), **bounds, limit=limit)
    if len(rows) >= limit:
        return rows, None
    return rows, tx.first(_last_started(filters.oldest_first), **bounds)


def is_start_of_id(text: str) -> bool:
    """Returns whether a text is the beginning of few enough run ids to search for them."""
    return text.startswith("run_") and len(text) >= _LEAST_OF_AN_ID


def _matching(text: str) -> dict[str, str]:
    """Returns the parameters of a text that a run's id begins with, or that is its reference or one of its labels."""
    name, equals, value = text.partition("=")
    first, last = (text, text + _AFTER_ALL) if is_start_of_id(text) else ("", "")
    # No label has the name that is empty.
    label = (name.strip(), value.strip()) if equals else ("", "")
    return {"first": first, "last": last, "text": text, "label_name": label[0], "label_value": label[1]}


def more_of(tx: Tx, run_ids: list[str]) -> list[FoundRunRow]:
    """Returns further columns of each of these runs, which must exist."""
    return [found for (found,) in tx.each(_FOUND, [{"of": run_id} for run_id in run_ids])]


def costs(tx: Tx, run_ids: list[str]) -> list[CostRow]:
    """Returns the cost of the own steps of each of these runs."""
    return [found for (found,) in tx.each(_COST, [{"of": run_id} for run_id in run_ids])]


def known_costs(tx: Tx, run_ids: list[str]) -> dict[str, int]:
    """Returns the known costs of the own steps of these runs, in millionths of a US dollar; none without one."""
    blocks = [run_ids[first : first + len(_RUN_IDS)] for first in range(0, len(run_ids), len(_RUN_IDS))]
    # A block that is not full repeats its first run.
    given = [dict.fromkeys(_RUN_IDS, block[0]) | dict(zip(_RUN_IDS, block, strict=False)) for block in blocks]
    return {row.run_id: row.cost_microusd for rows in tx.each(_KNOWN_COSTS, given) for row in rows}


def approval_times(tx: Tx, run_ids: list[str]) -> list[list[ApprovalTimesRow]]:
    """Returns the times of approvals of each of these runs."""
    return tx.each(_APPROVAL_TIMES, [{"of": run_id} for run_id in run_ids])


def _given(key_id: str | None, filters: RunFilters) -> dict[str, str]:
    return filters.equalities() | ({} if key_id is None else {"key_id": key_id})


@cache
def _by_id(equal: frozenset[str], statuses: tuple[str, ...], oldest_first: bool) -> Query[RunSummaryRow]:
    position = tuple_(runs.c.created_at, runs.c.run_id)
    found = _filtered(select_row(RunSummaryRow, runs).where(_id_begins(), *_between(position)), equal, statuses)
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
def _by_starter(
    equal: frozenset[str], statuses: tuple[str, ...], with_text: bool, oldest_first: bool
) -> Query[RunSummaryRow]:
    started = _started(oldest_first).limit(bindparam("most")).subquery()
    found = select_row(RunSummaryRow, runs).select_from(started).join(runs, runs.c.run_id == started.c.run_id)
    if with_text:
        text, label = bindparam("text", type_=Text), run_labels.c
        named = and_(
            label.name == bindparam("label_name", type_=Text), label.value == bindparam("label_value", type_=Text)
        )
        labels = select(label.run_id).where(label.run_id == runs.c.run_id, or_(label.value == text, named))
        matches = (_id_begins(), runs.c.client_reference == text, labels.correlate(runs).exists())
        found = found.where(or_(*matches))
    order = _in_order(oldest_first, started.c.created_at, started.c.run_id)
    return Query(RunSummaryRow, _filtered(found, equal, statuses).order_by(*order).limit(bindparam("limit")))


@cache
def _last_examined(named: bool, oldest_first: bool) -> Query[FoundRunPosition]:
    return Query(FoundRunPosition, _last_of(_labelled(named, oldest_first)))


@cache
def _last_started(oldest_first: bool) -> Query[FoundRunPosition]:
    return Query(FoundRunPosition, _last_of(_started(oldest_first)))


def _last_of(examined: "Select[tuple[int, str]]") -> "Select[tuple[int, str]]":
    """Returns the query of the last examined run; it has no row if there are fewer."""
    last = bindparam("most", type_=BigInteger) - literal_column("1")
    return examined.limit(literal_column("1")).offset(last)


def _started(oldest_first: bool) -> "Select[tuple[int, str]]":
    created_at, run_id = audit_records.c.at.label("created_at"), audit_records.c.target.label("run_id")
    query = select(created_at, run_id).where(
        audit_records.c.actor == bindparam("actor", type_=Text),
        audit_records.c.action == literal_column("'run.started'"),
        *_between(tuple_(audit_records.c.at, audit_records.c.target)),
    )
    query = query.order_by(*_in_order(oldest_first, audit_records.c.at, audit_records.c.target))
    return query.with_hint(audit_records, "INDEXED BY ix_audit_records_starts", "sqlite")


def _labelled(named: bool, oldest_first: bool) -> "Select[tuple[int, str]]":
    position = tuple_(run_labels.c.created_at, run_labels.c.run_id)
    query = select(run_labels.c.created_at, run_labels.c.run_id).where(
        run_labels.c.value == bindparam("value", type_=Text), *_between(position)
    )
    if named:
        query = query.where(run_labels.c.name == bindparam("name", type_=Text))
    return query.order_by(*_in_order(oldest_first, run_labels.c.created_at, run_labels.c.run_id))


def _id_begins() -> ColumnElement[bool]:
    return and_(runs.c.run_id >= bindparam("first", type_=Text), runs.c.run_id < bindparam("last", type_=Text))


def _in_order(oldest_first: bool, *columns: ColumnElement[Any]) -> list[ColumnElement[Any]]:
    return [column.asc() if oldest_first else column.desc() for column in columns]


def _between(position: Tuple) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return position < _bound("upper"), position > _bound("lower")


def _bound(which: str) -> Tuple:
    return tuple_(bindparam(f"{which}_created_at", type_=BigInteger), bindparam(f"{which}_run_id", type_=Text))


def _filtered(query: RowSelect, equal: frozenset[str], statuses: tuple[str, ...]) -> RowSelect:
    query = query.where(NO_CHILD, *(runs.c[name] == bindparam(name, type_=Text) for name in sorted(equal)))
    return query.where(status_in(*statuses)) if statuses else query
