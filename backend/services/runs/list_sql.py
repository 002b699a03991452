"""SQL of the run list, by time of creation and without children, in time that does not grow with the number of runs.

Every read is a range of one index in the order of the list: all leading columns of the index have a value, and
each of several statuses has its own range. A leading column without a filter (the key for an administrator, the
workflow with a client reference) is replaced by its distinct values, found by skip scans, with a range for each.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Text,
    Tuple,
    and_,
    bindparam,
    literal_column,
    select,
    tuple_,
    union_all,
)

from backend.common.states import RUN_IN_FLIGHT, RUN_TERMINAL, RUN_TRANSITIONS
from backend.services.runs.rules import RunFilters
from backend.storage.database import Tx
from backend.storage.sql_expressions import in_order_equal
from backend.storage.statements import Query, RowSelect, select_row
from backend.storage.tables.runs import NO_CHILD, runs, status_in


class RunSummaryRow(NamedTuple):
    """A run as the list shows it."""

    run_id: str
    workflow_id: str
    workflow_name: str
    version: int
    status: str
    created_at: int
    started_at: int | None
    finished_at: int | None
    client_reference: str | None
    labels: str
    steps_total: int
    steps_completed: int
    steps_failed: int
    steps_skipped: int
    approvals_pending: int
    outputs_count: int
    warnings: str


class ChildRunRow(NamedTuple):
    """A child run in the list, with the step, and the index of the item, that started it."""

    run_id: str
    workflow_id: str
    workflow_name: str
    version: int
    status: str
    created_at: int
    started_at: int | None
    finished_at: int | None
    client_reference: str | None
    labels: str
    steps_total: int
    steps_completed: int
    steps_failed: int
    steps_skipped: int
    approvals_pending: int
    outputs_count: int
    warnings: str
    parent_step: str
    parent_item: int | None


class ValueRow(NamedTuple):
    """A distinct value of a column."""

    value: str


_ORDER: Final = ("created_at", "run_id")


@dataclass(frozen=True, slots=True)
class _RunIndex:
    """An index of `runs`: its name, the columns before (created_at, run_id), and the statuses in it."""

    name: str
    leading: tuple[str, ...]
    statuses: tuple[str, ...]

    def condition(self) -> ColumnElement[bool]:
        """Returns the condition of the partial index."""
        held = status_in(*self.statuses)
        return and_(runs.c.client_reference.is_not(None), held) if "client_reference" in self.leading else held


USUAL_LIMIT: Final = 21
"""The default page size plus one, written into the statement: PostgreSQL plans a parameter anew each time."""
_IN_FLIGHT: Final = _RunIndex("ix_runs_in_flight", ("key_id", "status"), RUN_IN_FLIGHT)
_BY_STATUS: Final = _RunIndex("ix_runs_finished", ("key_id", "status"), RUN_TERMINAL)
_BY_WORKFLOW: Final = _RunIndex("ix_runs_finished_of_workflow", ("key_id", "workflow_id", "status"), RUN_TERMINAL)
_BY_REFERENCE: Final = _RunIndex(
    "ix_runs_finished_of_reference", ("client_reference", "key_id", "workflow_id", "status"), RUN_TERMINAL
)


_CHILDREN_AFTER: Final = (
    select_row(ChildRunRow, runs)
    .where(
        runs.c.parent_run_id == bindparam("of_run_id"),
        tuple_(runs.c.created_at, runs.c.run_id)
        > tuple_(bindparam("after_created_at", type_=BigInteger), bindparam("after_run_id", type_=Text)),
    )
    .order_by(runs.c.created_at, runs.c.run_id)
    .limit(bindparam("limit"))
)
_CHILDREN = Query(ChildRunRow, _CHILDREN_AFTER)
_CHILDREN_OF_STEP = Query(ChildRunRow, _CHILDREN_AFTER.where(runs.c.parent_step == bindparam("of_step")))


def children(tx: Tx, run_id: str, step: str, after: tuple[int, str], limit: int) -> list[ChildRunRow]:
    """Returns children of a run, or of one of its steps, in the order of their starts.

    They begin after a position of created_at and run id.
    """
    asked = {"of_run_id": run_id, "after_created_at": after[0], "after_run_id": after[1], "limit": limit}
    return tx.all(_CHILDREN_OF_STEP, **asked, of_step=step) if step else tx.all(_CHILDREN, **asked)


def newest(
    tx: Tx, key_id: str | None, filters: Sequence[RunFilters], after: tuple[int, str] | None, limit: int
) -> list[RunSummaryRow]:
    """Returns a page, as `page`, of the runs that pass any of the filters, which must exclude each other."""
    if len(filters) == 1:
        return page(tx, key_id, filters[0], after, limit)
    found = [row for each in filters for row in page(tx, key_id, each, after, limit)]
    return sorted(found, key=lambda row: (row.created_at, row.run_id), reverse=True)[:limit]


def page(
    tx: Tx, key_id: str | None, filters: RunFilters, after: tuple[int, str] | None, limit: int
) -> list[RunSummaryRow]:
    """Returns summaries of up to `limit` runs in the order of `filters`, after a position of created_at and run id."""
    equal = filters.equalities() | ({} if key_id is None else {"key_id": key_id})
    common: dict[str, int | str] = filters.bounds(after) | {"limit": limit}
    # Of a key, only the ranges of statuses end at a bound of time.
    bounded = filters.before_ms if filters.oldest_first else filters.after_ms
    if not filters.statuses and equal.keys() <= ({"key_id"} if bounded is None else set()):
        return tx.all(_listed(frozenset(equal), (), limit == USUAL_LIMIT, filters.oldest_first), **common, **equal)
    found: dict[str, RunSummaryRow] = {}
    for statuses, groups in _ranges(tx, filters.statuses or tuple(RUN_TRANSITIONS), equal):
        if groups:
            statement = _listed(frozenset(groups[0]), statuses, limit == USUAL_LIMIT, filters.oldest_first)
            pages = tx.each(statement, [{**common, **group} for group in groups])
            # A run that finished between the two reads is in both; the later row counts.
            found.update((row.run_id, row) for rows in pages for row in rows)
    rows = sorted(found.values(), key=lambda row: (row.created_at, row.run_id), reverse=not filters.oldest_first)
    return rows[:limit]


def _ranges(
    tx: Tx, statuses: tuple[str, ...], equal: dict[str, str]
) -> Iterator[tuple[tuple[str, ...], list[dict[str, str]]]]:
    """Yields statuses that are read together, with each set of values of the leading columns of their index."""
    leading = ("key_id", "workflow_id") if "client_reference" in equal else ("key_id",)
    if equal.keys() >= set(leading):
        yield statuses, [equal]
        return
    in_flight = tuple(status for status in statuses if status in RUN_IN_FLIGHT)
    if in_flight:
        yield in_flight, _completed(tx, equal, ("key_id",), in_flight=True)
    finished = tuple(status for status in statuses if status in RUN_TERMINAL)
    if finished:
        yield finished, _completed(tx, equal, leading, in_flight=False)


def _completed(tx: Tx, equal: dict[str, str], leading: Sequence[str], *, in_flight: bool) -> list[dict[str, str]]:
    """Returns the given values combined with each occurring value of the other leading columns."""
    groups = [equal]
    for column in leading:
        if column not in equal:
            known = () if in_flight else tuple(name for name in ("client_reference", "key_id") if name in groups[0])
            values = tx.each(_distinct(column, known, in_flight), groups)
            groups = [group | {column: row.value} for group, rows in zip(groups, values, strict=True) for row in rows]
        if not groups:
            break
    return groups


@cache
def _listed(equal: frozenset[str], statuses: tuple[str, ...], usual: bool, oldest_first: bool) -> Query[RunSummaryRow]:
    """Makes a query for the first runs with equal values in these columns: of all statuses, or of each of some."""
    limit: ColumnElement[int] = literal_column(str(USUAL_LIMIT)) if usual else bindparam("limit")
    if not statuses:
        columns = (*sorted(equal), *_ORDER)
        found = tuple_(*_columns(columns))
        within = [found < _position("upper", sorted(equal)), found > _position("lower", sorted(equal))]
        query = select_row(RunSummaryRow, runs).where(*within, NO_CHILD)
        return Query(RunSummaryRow, _in_order(query, columns, oldest_first).limit(limit))
    ranges = [_range(equal, status, oldest_first).limit(limit) for status in statuses]
    return Query(
        RunSummaryRow, ranges[0] if len(ranges) == 1 else union_all(*(select(each.subquery()) for each in ranges))
    )


def _range(equal: frozenset[str], status: str, oldest_first: bool) -> RowSelect:
    """Makes a query for the first runs of one status, as a range of one index.

    The order names the status, so that PostgreSQL cannot choose an index without it: it assumes independent columns,
    and would look for rare rows among the newest. SQLite gets the name of the index as a hint. Only equality bounds
    a range at both ends: PostgreSQL reads on behind one of `(status, created_at)` to the last of all statuses.
    """
    index = _index(equal, status)
    query = select_row(RunSummaryRow, runs).where(
        *(runs.c[name] == bindparam(name, type_=Text) for name in sorted({*index.leading, *equal} - {"status"})),
        in_order_equal(runs.c.status, status),
        *_between(),
        index.condition(),
        NO_CHILD,
    )
    return _in_order(query, (*index.leading, *_ORDER), oldest_first).with_hint(
        runs, f"INDEXED BY {index.name}", "sqlite"
    )


def _index(equal: frozenset[str], status: str) -> _RunIndex:
    if status in RUN_IN_FLIGHT:
        return _IN_FLIGHT
    if "client_reference" in equal:
        return _BY_REFERENCE
    return _BY_WORKFLOW if "workflow_id" in equal else _BY_STATUS


def _between() -> Sequence[ColumnElement[bool]]:
    found = tuple_(*_columns(_ORDER))
    return found < _position("upper"), found > _position("lower")


def _columns(names: Iterable[str]) -> list[Column[object]]:
    return [runs.c[name] for name in names]


def _position(which: str, leading: Sequence[str] = ()) -> Tuple:
    """Returns a position in an index as parameters."""
    values = [bindparam(name, type_=Text) for name in leading]
    created_at = bindparam(f"{which}_created_at", type_=BigInteger)
    return tuple_(*values, created_at, bindparam(f"{which}_run_id", type_=Text))


def _in_order(query: RowSelect, columns: Sequence[str], oldest_first: bool) -> RowSelect:
    return query.order_by(*(column.asc() if oldest_first else column.desc() for column in _columns(columns)))


@cache
def _distinct(column: str, known: tuple[str, ...], in_flight: bool) -> Query[ValueRow]:
    """Makes a skip scan: the distinct values of the column after the known ones in an index, by one probe each."""
    index = _IN_FLIGHT if in_flight else _BY_REFERENCE if known else None
    columns = (*known, column)
    known_values = [bindparam(name, type_=Text) for name in known]

    def next_value(*above: ColumnElement[bool]) -> RowSelect:
        query = select(runs.c[column].label("value")).where(*above)
        if known:
            query = query.where(tuple_(*_columns(known)) <= tuple_(*known_values))
            # SQLite searches the index by these equalities; with the tuple alone it would scan all equal rows.
            query = query.where(*(runs.c[name].is_not_distinct_from(bindparam(name)) for name in known))
        if index is None:
            return query.order_by(*_columns(columns)).limit(literal_column("1"))
        ordered = query.where(index.condition()).order_by(*_columns(index.leading))
        return ordered.limit(literal_column("1")).with_hint(runs, f"INDEXED BY {index.name}", "sqlite")

    position = tuple_(*_columns(columns))
    first = next_value(position >= tuple_(*known_values, literal_column("''")))
    values = select(first.scalar_subquery().label("value")).cte("found", recursive=True)
    above = (position > tuple_(*known_values, values.c.value), runs.c[column] > values.c.value)
    following = next_value(*above[0 if known else 1 :]).scalar_subquery()
    values = values.union_all(select(following).where(values.c.value.is_not(None)))
    return Query(ValueRow, select(values.c.value).where(values.c.value.is_not(None)))
