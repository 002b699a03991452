"""SQL of the figures of days: counted from an index of the runs that ended, and kept once the day is over."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from sqlalchemy import BigInteger, ColumnElement, and_, bindparam, case, delete, func, insert, literal_column, select

from backend.run_status import RunStatus
from backend.storage.database import Tx
from backend.storage.statements import Command, Query, ScalarQuery, select_row
from backend.storage.tables.runs import run_days, runs


class DayRow(NamedTuple):
    """The figures of a UTC day; the durations are of runs that began, and null where none did."""

    day: int
    ended: int
    failed: int
    cancelled: int
    median_ms: int | None
    p95_ms: int | None


class _CountRow(NamedTuple):
    """How many runs ended within a time, and how."""

    ended: int
    failed: int
    cancelled: int
    began: int


_ONE: Final[ColumnElement[int]] = literal_column("1")
_WITHIN: Final = and_(
    runs.c.finished_at.is_not(None),
    runs.c.finished_at >= bindparam("first", type_=BigInteger),
    runs.c.finished_at < bindparam("last", type_=BigInteger),
)


def _number(status: str) -> ColumnElement[int]:
    return func.coalesce(func.sum(case((runs.c.status == literal_column(f"'{status}'"), _ONE), else_=0)), 0)


_COUNT = Query(
    _CountRow,
    select(
        func.count().label("ended"),
        _number(RunStatus.FAILED).label("failed"),
        _number(RunStatus.CANCELLED).label("cancelled"),
        func.count(runs.c.started_at).label("began"),
    )
    .select_from(runs)
    .where(_WITHIN)
    .with_hint(runs, "INDEXED BY ix_runs_ended", "sqlite"),
)
_TAKEN: Final = runs.c.finished_at - runs.c.started_at
_NTH: Final[ScalarQuery[int]] = ScalarQuery(
    select(_TAKEN.label("taken"))
    .where(_WITHIN, runs.c.started_at.is_not(None))
    .order_by(_TAKEN)
    .limit(_ONE)
    .offset(bindparam("before", type_=BigInteger))
    .with_hint(runs, "INDEXED BY ix_runs_ended", "sqlite")
)
_KEPT = Query(
    DayRow,
    select_row(DayRow, run_days).where(run_days.c.day >= bindparam("first")).order_by(run_days.c.day),
)
_IS_KEPT: Final[ScalarQuery[int]] = ScalarQuery(select(run_days.c.day).where(run_days.c.day == bindparam("of_day")))
_KEEP = Command(insert(run_days), list(DayRow._fields))
_FORGET = Command(delete(run_days).where(run_days.c.day == bindparam("of_day")))


def kept(tx: Tx, first: int) -> dict[int, DayRow]:
    """Returns the figures that are kept of days from the first on."""
    return {row.day: row for row in tx.all(_KEPT, first=first)}


def counted(tx: Tx, day: int, first: int, last: int) -> DayRow:
    """Counts the runs that ended from a time on and before another."""
    within = {"first": first, "last": last}
    found = tx.one(_COUNT, **within)

    def percentile(percent: int) -> int | None:
        # The nearest rank: of 20 values the 95th percentile is the 19th.
        return tx.scalar(_NTH, **within, before=-(-found.began * percent // 100) - 1) if found.began else None

    return DayRow(day, found.ended, found.failed, found.cancelled, percentile(50), percentile(95))


def keep(tx: Tx, rows: list[DayRow]) -> None:
    """Keeps the figures of days, but for days of which they are kept."""
    tx.many(_KEEP, [row._asdict() for row in rows if not tx.exists(_IS_KEPT, of_day=row.day)])


def forget(tx: Tx, days: Iterable[int]) -> None:
    """Removes the figures of days."""
    tx.many(_FORGET, [{"of_day": day} for day in days])
