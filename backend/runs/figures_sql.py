"""SQL of the figures of a workflow: of its newest runs that ended, read from an index alone, and of their steps."""

from typing import Final, NamedTuple

from sqlalchemy import BigInteger, and_, bindparam, literal_column, or_

from backend.step_status import StepStatus
from backend.storage.database import Tx
from backend.storage.statements import Query, select_row
from backend.storage.tables.runs import runs
from backend.storage.tables.segments import steps


class EndedRow(NamedTuple):
    """A run that ended."""

    run_id: str
    status: str
    started_at: int | None
    finished_at: int


class EndedStepRow(NamedTuple):
    """A step of a run that completed or failed."""

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
    """Returns the steps of as many of these runs, in the order of the runs, then of the steps."""
    return tx.all(_ENDED_STEPS, of_workflow=workflow_id, since=since, limit=limit)
