"""SQL of runs that lost their worker and are to be resumed automatically."""

from typing import Final, NamedTuple

from sqlalchemy import BigInteger, BindParameter, bindparam, insert, literal_column, null, select, update

from backend.storage.database import Tx
from backend.storage.statements import Command, Query, ScalarQuery, select_row
from backend.storage.tables.runs import interruptions, runs
from backend.storage.tables.schedules import schedule_starts


class InterruptedRow(NamedTuple):
    """A run that may be resumed automatically."""

    workflow_id: str
    version: int
    parent_run_id: str | None


class DueRow(NamedTuple):
    """A run that is to be resumed now."""

    run_id: str
    interrupted_at: int
    due_at: int
    version: int
    triggered_by: str


class WarnedRow(NamedTuple):
    """A run whose warnings may be extended."""

    warnings: str
    redaction_state: str
    data_purged_at: int | None


_RUN: Final[BindParameter[str]] = bindparam("of_run_id")
_INTERRUPTED = Query(InterruptedRow, select_row(InterruptedRow, runs).where(runs.c.run_id == _RUN))
_ORDINAL = ScalarQuery[int](select(interruptions.c.ordinal).where(interruptions.c.followed_by == _RUN))
_ADD = Command(insert(interruptions), ["run_id", "ordinal", "interrupted_at", "due_at"])
_DUE = Query(
    DueRow,
    select_row(DueRow, interruptions, runs)
    .join(runs, runs.c.run_id == interruptions.c.run_id)
    .where(interruptions.c.due_at.is_not(None), interruptions.c.due_at <= bindparam("now"))
    .order_by(interruptions.c.due_at)
    .limit(bindparam("most")),
)
_OPEN: Final = (interruptions.c.run_id == _RUN, interruptions.c.due_at.is_not(None))
_SETTLE = Command(update(interruptions).where(*_OPEN).values(due_at=null(), followed_by=bindparam("new_run_id")))
_CLAIM = Command(
    update(interruptions)
    .where(interruptions.c.run_id == _RUN, interruptions.c.due_at == bindparam("old_due_at"))
    .values(due_at=bindparam("new_due_at"))
)
_POSTPONE = Command(update(interruptions).where(*_OPEN).values(due_at=bindparam("new_due_at")))
_FOLLOW_SCHEDULE = Command(
    insert(schedule_starts).from_select(
        ["run_id", "workflow_id", "schedule", "started_at"],
        select(
            bindparam("new_run_id", type_=schedule_starts.c.run_id.type),
            schedule_starts.c.workflow_id,
            schedule_starts.c.schedule,
            bindparam("at_ms", type_=BigInteger),
        ).where(schedule_starts.c.run_id == _RUN),
    )
)
_WARNED = Query(WarnedRow, select_row(WarnedRow, runs).where(runs.c.run_id == _RUN))
_WARN = Command(update(runs).where(runs.c.run_id == _RUN).values(warnings=bindparam("new_warnings")))
# Begins with the few runs that are to be resumed.
_OF_SCHEDULE = ScalarQuery[str](
    select(interruptions.c.run_id)
    .select_from(interruptions)
    .join(schedule_starts, schedule_starts.c.run_id == interruptions.c.run_id)
    .where(
        interruptions.c.due_at.is_not(None),
        schedule_starts.c.workflow_id == bindparam("of_workflow_id"),
        schedule_starts.c.schedule == bindparam("of_schedule"),
    )
    .limit(literal_column("1"))
)


def interrupted(tx: Tx, run_id: str) -> InterruptedRow | None:
    """Returns the workflow version and the parent of a run, or None."""
    return tx.first(_INTERRUPTED, of_run_id=run_id)


def ordinal_before(tx: Tx, run_id: str) -> int:
    """Returns the position in its chain of the run that this run follows; 0 where it follows none."""
    return tx.scalar(_ORDINAL, of_run_id=run_id) or 0


def add(tx: Tx, run_id: str, ordinal: int, at: int, due_at: int | None) -> None:
    """Records an interruption; `due_at` is None where nothing follows it."""
    tx.enqueue(_ADD, run_id=run_id, ordinal=ordinal, interrupted_at=at, due_at=due_at)


def due(tx: Tx, now: int, most: int) -> list[DueRow]:
    """Returns up to `most` runs that are to be resumed, the longest due first."""
    return tx.all(_DUE, now=now, most=most)


def claim(tx: Tx, run: DueRow, until: int) -> bool:
    """Has an interrupted run due at `until`, unless its time has changed; returns whether it has not."""
    return tx.run(_CLAIM, of_run_id=run.run_id, old_due_at=run.due_at, new_due_at=until) == 1


def settle(tx: Tx, run_id: str, followed_by: str | None) -> bool:
    """Ends the wait of an interrupted run for the run that follows it; returns False if it does not wait."""
    return tx.run(_SETTLE, of_run_id=run_id, new_run_id=followed_by) == 1


def postpone(tx: Tx, run_id: str, due_at: int) -> None:
    """Sets when an interrupted run is tried again."""
    tx.enqueue(_POSTPONE, of_run_id=run_id, new_due_at=due_at)


def follow_schedule(tx: Tx, run_id: str, new_run_id: str, at: int) -> None:
    """Records the new run as one of the schedule that started the interrupted run, if any."""
    tx.enqueue(_FOLLOW_SCHEDULE, of_run_id=run_id, new_run_id=new_run_id, at_ms=at)


def warned(tx: Tx, run_id: str) -> WarnedRow:
    """Returns the warnings of a run, and whether they may change."""
    return tx.one(_WARNED, of_run_id=run_id)


def set_warnings(tx: Tx, run_id: str, warnings: str) -> None:
    """Replaces the warnings of a run."""
    tx.enqueue(_WARN, of_run_id=run_id, new_warnings=warnings)


def waiting_of_schedule(tx: Tx, workflow_id: str, schedule: str) -> str | None:
    """Returns a run of the schedule that is to be resumed, or None."""
    return tx.scalar(_OF_SCHEDULE, of_workflow_id=workflow_id, of_schedule=schedule)
