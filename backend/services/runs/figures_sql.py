"""SQL of statistics of ended runs: reads of a workflow's newest runs, and counts of days, stored in `run_days`."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    literal_column,
    or_,
    select,
)

from backend.common.states import RunStatus, StepStatus
from backend.storage.database import Tx
from backend.storage.statements import Command, Query, ScalarQuery, select_row
from backend.storage.tables.runs import NO_CHILD, run_days, runs
from backend.storage.tables.segments import steps


class EndedRow(NamedTuple):
    """Status and times of a run that ended."""

    run_id: str
    status: str
    started_at: int | None
    finished_at: int


class EndedStepRow(NamedTuple):
    """A completed or failed step, with its attempts and times."""

    step: str
    name: str
    status: str
    attempt: int
    started_at: int | None
    finished_at: int | None


_NEWEST: Final = (
    select_row(EndedRow, runs)
    .where(
        and_(
            runs.c.finished_at.is_not(None),
            runs.c.workflow_id == bindparam("of_workflow"),
            runs.c.finished_at >= bindparam("since", type_=BigInteger),
        )
    )
    .order_by(runs.c.finished_at.desc(), runs.c.run_id.desc())
    .limit(bindparam("limit"))
    .with_hint(runs, "INDEXED BY ix_runs_ended_of_workflow", "sqlite")
)
_ENDED = Query(EndedRow, _NEWEST)
_OF_RUNS = _NEWEST.subquery("newest")
_ENDED_STEPS = Query(
    EndedStepRow,
    select_row(EndedStepRow, steps)
    .join(_OF_RUNS, steps.c.run_id == _OF_RUNS.c.run_id)
    .where(
        or_(*(steps.c.status == literal_column(f"'{status}'") for status in (StepStatus.COMPLETED, StepStatus.FAILED)))
    )
    .order_by(_OF_RUNS.c.finished_at.desc(), _OF_RUNS.c.run_id.desc(), steps.c.position),
)


def ended_runs(tx: Tx, workflow_id: str, since: int, limit: int) -> list[EndedRow]:
    """Returns the newest runs of a workflow that ended since a time, newest first."""
    return tx.all(_ENDED, of_workflow=workflow_id, since=since, limit=limit)


def ended_steps(tx: Tx, workflow_id: str, since: int, limit: int) -> list[EndedStepRow]:
    """Returns the steps of up to `limit` of the runs of `ended_runs`, in the order of runs, then of steps."""
    return tx.all(_ENDED_STEPS, of_workflow=workflow_id, since=since, limit=limit)


class FailedRow(NamedTuple):
    """A failed run with its error."""

    run_id: str
    workflow_id: str
    workflow_name: str
    finished_at: int
    error_code: str | None
    error_message: str | None


_FAILED_SINCE: Final = (
    select_row(FailedRow, runs)
    .where(
        runs.c.finished_at.is_not(None),
        runs.c.finished_at >= bindparam("since", type_=BigInteger),
        runs.c.status == literal_column(f"'{RunStatus.FAILED}'"),
        NO_CHILD,
    )
    .order_by(runs.c.finished_at.desc())
    .limit(bindparam("limit"))
)
_FAILED: Final = Query(FailedRow, _FAILED_SINCE.with_hint(runs, "INDEXED BY ix_runs_failed", "sqlite"))
# The index has the status: runs that did not fail are skipped without a read of the table.
_FAILED_OF_WORKFLOW: Final = Query(
    FailedRow,
    _FAILED_SINCE.where(runs.c.workflow_id == bindparam("of_workflow")).with_hint(
        runs, "INDEXED BY ix_runs_ended_of_workflow", "sqlite"
    ),
)


def newest_failed(tx: Tx, since: int, limit: int, workflow_ids: Iterable[str] | None) -> list[FailedRow]:
    """Returns the newest runs, of all or of some workflows, that failed since a time; children are left out."""
    if workflow_ids is None:
        return tx.all(_FAILED, since=since, limit=limit)
    asked = [{"since": since, "limit": limit, "of_workflow": each} for each in sorted(workflow_ids)]
    found = [row for rows in tx.each(_FAILED_OF_WORKFLOW, asked) for row in rows]
    return sorted(found, key=lambda row: row.finished_at, reverse=True)[:limit]


class DayRow(NamedTuple):
    """The figures of a UTC day; durations are of runs that began, and None where no run began."""

    day: int
    ended: int
    failed: int
    cancelled: int
    median_ms: int | None
    p95_ms: int | None


class _CountRow(NamedTuple):
    """Numbers of runs that ended within a time, by status."""

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


def stored_days(tx: Tx, first: int) -> dict[int, DayRow]:
    """Returns the stored figures of days from `first` on."""
    return {row.day: row for row in tx.all(_KEPT, first=first)}


def count_day(tx: Tx, day: int, first: int, last: int) -> DayRow:
    """Counts the runs of a day, which ended from `first` on and before `last`, in milliseconds."""
    within = {"first": first, "last": last}
    found = tx.one(_COUNT, **within)

    def percentile(percent: int) -> int | None:
        # The nearest rank: of 20 values the 95th percentile is the 19th.
        return tx.scalar(_NTH, **within, before=-(-found.began * percent // 100) - 1) if found.began else None

    return DayRow(day, found.ended, found.failed, found.cancelled, percentile(50), percentile(95))


def store_days(tx: Tx, rows: list[DayRow]) -> None:
    """Stores the figures of days that have none yet."""
    tx.many(_KEEP, [row._asdict() for row in rows if not tx.exists(_IS_KEPT, of_day=row.day)])


def delete_days(tx: Tx, days: Iterable[int]) -> None:
    """Deletes the stored figures of days."""
    tx.many(_FORGET, [{"of_day": day} for day in days])
