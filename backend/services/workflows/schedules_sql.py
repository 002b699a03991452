"""SQL of schedules of workflows' active versions: reads, adds, changes and removes their rows."""

from typing import Final

from sqlalchemy import bindparam, delete, insert, literal_column, select, update

from backend.storage.database import Tx
from backend.storage.statements import Command, Query, ScalarQuery, select_row
from backend.storage.tables.schedules import ScheduleRow, schedules

_OF_WORKFLOW: Final = (schedules.c.workflow_id == bindparam("of_workflow_id"), schedules.c.name.is_not(None))
_DEFINED = Query(ScheduleRow, select_row(ScheduleRow, schedules).where(*_OF_WORKFLOW))
_ANY = ScalarQuery[int](select(literal_column("1")).where(*_OF_WORKFLOW).limit(literal_column("1")))
_ADD = Command(insert(schedules), schedules.columns.keys())
_IDENTITY: Final = frozenset({"schedule_id", "workflow_id", "name", "created_at", "created_by"})
_CHANGED: Final = tuple(name for name in ScheduleRow._fields if name not in _IDENTITY)
_CHANGE = Command(
    update(schedules)
    .where(schedules.c.schedule_id == bindparam("of_schedule_id"))
    .values({name: bindparam(f"new_{name}") for name in _CHANGED})
)
_REMOVE = Command(delete(schedules).where(schedules.c.schedule_id == bindparam("of_schedule_id")))
_REMOVE_ALL = Command(delete(schedules).where(schedules.c.workflow_id == bindparam("of_workflow_id")))


def defined(tx: Tx, workflow_id: str) -> list[ScheduleRow]:
    """Returns the schedules of a workflow, without planned starts."""
    return tx.all(_DEFINED, of_workflow_id=workflow_id)


def any_defined(tx: Tx, workflow_id: str) -> bool:
    """Returns whether a workflow has schedules."""
    return tx.exists(_ANY, of_workflow_id=workflow_id)


def add(tx: Tx, row: ScheduleRow) -> None:
    """Writes a new schedule or planned start."""
    tx.enqueue(_ADD, **row._asdict())


def change(tx: Tx, row: ScheduleRow) -> None:
    """Writes the changed row of a schedule, which was read in this transaction."""
    tx.enqueue(_CHANGE, of_schedule_id=row.schedule_id, **{f"new_{name}": getattr(row, name) for name in _CHANGED})


def remove(tx: Tx, schedule_id: str) -> None:
    """Removes a schedule, but not the runs that it started."""
    tx.enqueue(_REMOVE, of_schedule_id=schedule_id)


def remove_all(tx: Tx, workflow_id: str) -> None:
    """Removes the schedules and planned starts of a workflow."""
    tx.enqueue(_REMOVE_ALL, of_workflow_id=workflow_id)
