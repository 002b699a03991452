"""SQL of schedules and planned starts: due ones, started runs, lists, and removal."""

from typing import Final, NamedTuple

from sqlalchemy import BigInteger, Text, bindparam, delete, func, insert, literal_column, select, tuple_

from backend.common.clock import DAY_MS
from backend.common.states import RUN_IN_FLIGHT
from backend.storage.database import Tx
from backend.storage.statements import Command, Query, ScalarQuery, select_row
from backend.storage.tables.runs import runs, status_in
from backend.storage.tables.schedules import ScheduleRow, schedule_starts, schedules
from backend.storage.tables.workflows import workflows

KEPT_MS: Final = 30 * DAY_MS
"""Milliseconds for which a past planned start stays in the list."""


class ListedScheduleRow(NamedTuple):
    """A schedule with the name of its workflow."""

    schedule_id: str
    workflow_id: str
    name: str | None
    definition: str
    created_at: int
    created_by: str | None
    paused: int
    next_at: int | None
    waiting_at: int | None
    last_due_at: int | None
    last_at: int | None
    last_outcome: str | None
    last_run_id: str | None
    last_reason: str | None
    workflow_name: str

    @property
    def row(self) -> ScheduleRow:
        """The row of the schedule, without the workflow's name."""
        return ScheduleRow(*self[:-1])


_SCHEDULE: Final = schedules.c.schedule_id == bindparam("of_schedule_id")
_ROW: Final = select_row(ScheduleRow, schedules)
_GET = Query(ScheduleRow, _ROW.where(_SCHEDULE))
_NAMED = Query(
    ScheduleRow,
    _ROW.where(schedules.c.workflow_id == bindparam("of_workflow_id"), schedules.c.name == bindparam("of_name")),
)
_DUE = ScalarQuery[str](
    select(schedules.c.schedule_id)
    .where(schedules.c.next_at.is_not(None), schedules.c.next_at <= bindparam("now"))
    .order_by(schedules.c.next_at)
)
_WAITING = ScalarQuery[str](
    select(schedules.c.schedule_id).where(schedules.c.waiting_at.is_not(None)).order_by(schedules.c.waiting_at)
)
_AHEAD = Query(
    ScheduleRow,
    _ROW.where(schedules.c.next_at.is_not(None), schedules.c.next_at > bindparam("now"), schedules.c.name.is_not(None)),
)
_REMOVE = Command(delete(schedules).where(_SCHEDULE))
_FORGET_DECIDED = Command(
    delete(schedules).where(
        schedules.c.name.is_(None), schedules.c.next_at.is_(None), schedules.c.last_at < bindparam("before")
    )
)
_COUNT_PLANNED = ScalarQuery[int](
    select(func.count())
    .select_from(schedules)
    .where(schedules.c.workflow_id == bindparam("of_workflow_id"), schedules.c.name.is_(None))
)
_ADD_START = Command(insert(schedule_starts), schedule_starts.columns.keys())
_WAS_STARTED = ScalarQuery[str](
    select(schedule_starts.c.run_id).where(
        schedule_starts.c.workflow_id == bindparam("of_workflow_id"),
        schedule_starts.c.schedule == bindparam("of_schedule"),
        schedule_starts.c.due_at == bindparam("of_due_at"),
    )
)
# Begins with runs in flight without an API key, of which there are few.
_IN_FLIGHT = ScalarQuery[str](
    select(runs.c.run_id)
    .select_from(runs)
    .join(schedule_starts, schedule_starts.c.run_id == runs.c.run_id)
    .where(
        runs.c.key_id == literal_column("''"),
        status_in(*RUN_IN_FLIGHT),
        schedule_starts.c.workflow_id == bindparam("of_workflow_id"),
        schedule_starts.c.schedule == bindparam("of_schedule"),
    )
    .limit(literal_column("1"))
)
_SORT_NAME: Final = func.coalesce(schedules.c.name, literal_column("''"))
_WITH_WORKFLOW: Final = select_row(ListedScheduleRow, schedules, workflow_name=workflows.c.name).join(
    workflows, workflows.c.workflow_id == schedules.c.workflow_id
)
_LISTED = (
    _WITH_WORKFLOW.where(
        tuple_(workflows.c.name, _SORT_NAME, schedules.c.schedule_id)
        > tuple_(
            bindparam("after_workflow", type_=Text),
            bindparam("after_name", type_=Text),
            bindparam("after_id", type_=Text),
        )
    )
    .order_by(workflows.c.name, _SORT_NAME, schedules.c.schedule_id)
    .limit(bindparam("limit"))
)
_BY_NEXT_TIME = (
    _WITH_WORKFLOW.where(
        schedules.c.next_at.is_not(None),
        tuple_(schedules.c.next_at, schedules.c.schedule_id)
        > tuple_(bindparam("after_next_at", type_=BigInteger), bindparam("after_id", type_=Text)),
    )
    .order_by(schedules.c.next_at, schedules.c.schedule_id)
    .limit(bindparam("limit"))
)
_OF_WORKFLOW: Final = schedules.c.workflow_id == bindparam("of_workflow_id")
_LIST = Query(ListedScheduleRow, _LISTED)
_LIST_OF_WORKFLOW = Query(ListedScheduleRow, _LISTED.where(_OF_WORKFLOW))
_LIST_BY_NEXT_TIME = Query(ListedScheduleRow, _BY_NEXT_TIME)
_LIST_BY_NEXT_TIME_OF_WORKFLOW = Query(ListedScheduleRow, _BY_NEXT_TIME.where(_OF_WORKFLOW))


def get(tx: Tx, schedule_id: str) -> ScheduleRow | None:
    """Returns a schedule or planned start, or None."""
    return tx.first(_GET, of_schedule_id=schedule_id)


def named(tx: Tx, workflow_id: str, name: str) -> ScheduleRow | None:
    """Returns a schedule by its name, or None."""
    return tx.first(_NAMED, of_workflow_id=workflow_id, of_name=name)


def due(tx: Tx, now: int) -> list[str]:
    """Returns the distinct ids of due schedules, and of schedules with a queued due time."""
    return list(dict.fromkeys([*tx.scalars(_WAITING), *tx.scalars(_DUE, now=now)]))


def ahead(tx: Tx, now: int) -> list[ScheduleRow]:
    """Returns the schedules whose next due time is later than now."""
    return tx.all(_AHEAD, now=now)


def remove(tx: Tx, schedule_id: str) -> None:
    """Removes a planned start."""
    tx.enqueue(_REMOVE, of_schedule_id=schedule_id)


def count_planned(tx: Tx, workflow_id: str) -> int:
    """Returns the number of planned starts of a workflow, including past ones that are still listed."""
    return tx.scalar_one(_COUNT_PLANNED, of_workflow_id=workflow_id)


def delete_past_planned(tx: Tx, before: int) -> None:
    """Deletes planned starts that were decided before a time."""
    tx.enqueue(_FORGET_DECIDED, before=before)


def add_start(tx: Tx, row: ScheduleRow, schedule: str, run_id: str, due_at: int | None, now: int) -> None:
    """Records that a schedule started a run; a unique index refuses a second run of a due time."""
    tx.enqueue(_ADD_START, run_id=run_id, workflow_id=row.workflow_id, schedule=schedule, due_at=due_at, started_at=now)


def started_run(tx: Tx, row: ScheduleRow, schedule: str, due_at: int) -> str | None:
    """Returns the run that a due time has started, or None."""
    return tx.scalar(_WAS_STARTED, of_workflow_id=row.workflow_id, of_schedule=schedule, of_due_at=due_at)


def run_in_flight(tx: Tx, row: ScheduleRow, schedule: str) -> str | None:
    """Returns a run of the schedule that has not ended, or None."""
    return tx.scalar(_IN_FLIGHT, of_workflow_id=row.workflow_id, of_schedule=schedule)


def listed(tx: Tx, workflow_id: str | None, after: tuple[str, str, str], limit: int) -> list[ListedScheduleRow]:
    """Returns a page of schedules after a position, by names of workflow and schedule, planned starts first."""
    given = {"after_workflow": after[0], "after_name": after[1], "after_id": after[2], "limit": limit}
    if workflow_id is None:
        return tx.all(_LIST, **given)
    return tx.all(_LIST_OF_WORKFLOW, of_workflow_id=workflow_id, **given)


def listed_by_next_time(tx: Tx, workflow_id: str | None, after: tuple[int, str], limit: int) -> list[ListedScheduleRow]:
    """Returns a page of schedules that have a next time, after a position, by this time."""
    given = {"after_next_at": after[0], "after_id": after[1], "limit": limit}
    if workflow_id is None:
        return tx.all(_LIST_BY_NEXT_TIME, **given)
    return tx.all(_LIST_BY_NEXT_TIME_OF_WORKFLOW, of_workflow_id=workflow_id, **given)
