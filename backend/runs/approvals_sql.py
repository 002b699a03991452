"""SQL of the approvals that wait for a person, and of decisions."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from sqlalchemy import ColumnElement, bindparam, literal_column, update

from backend.approval_state import ApprovalState
from backend.step_status import StepStatus
from backend.storage.database import Tx
from backend.storage.statements import Command, Query, select_row
from backend.storage.tables.runs import runs
from backend.storage.tables.segments import approvals, steps


class PendingApprovalRow(NamedTuple):
    """An approval that waits for a person, with its workflow's name."""

    approval_id: str
    run_id: str
    workflow_name: str
    segment_id: str
    step: str
    title: str
    instructions: str | None
    requested_at: int


class FoundApprovalRow(NamedTuple):
    """An approval with its state, and its run with its status."""

    approval_id: str
    run_id: str
    step: str
    state: str
    status: str


_ONE: ColumnElement[int] = literal_column("1")
_PENDING = Query(
    PendingApprovalRow,
    select_row(PendingApprovalRow, approvals, runs)
    .join(runs, runs.c.run_id == approvals.c.run_id)
    .where(approvals.c.state == literal_column(f"'{ApprovalState.PENDING}'"))
    .order_by(approvals.c.requested_at, approvals.c.approval_id),
)
_FIND = Query(
    FoundApprovalRow,
    select_row(FoundApprovalRow, approvals, runs)
    .join(runs, runs.c.run_id == approvals.c.run_id)
    .where(approvals.c.approval_id == bindparam("of_approval_id")),
)
_DECIDE = Command(
    update(approvals)
    .where(approvals.c.approval_id == bindparam("of_approval_id"), approvals.c.state == ApprovalState.PENDING)
    .values(
        state=bindparam("new_state"),
        decided_at=bindparam("at_ms"),
        decided_by=bindparam("actor"),
        comment=bindparam("new_comment"),
    )
)
_FINISH_STEP = Command(
    update(steps)
    .where(steps.c.run_id == bindparam("of_run_id"), steps.c.step == bindparam("of_step"))
    .values(
        status=bindparam("new_status"),
        finished_at=bindparam("at_ms"),
        value=bindparam("new_value"),
        error_code=bindparam("new_error_code"),
        error_message=bindparam("new_error_message"),
    )
)
_ONE_LESS: Final = {"approvals_pending": runs.c.approvals_pending - _ONE}
_ONE_COMPLETED: Final = {"steps_completed": runs.c.steps_completed + _ONE}
_COUNT: Final[Mapping[bool, Command]] = {
    completed: Command(update(runs).where(runs.c.run_id == bindparam("of_run_id")).values(changes))
    for completed, changes in ((True, _ONE_LESS | _ONE_COMPLETED), (False, _ONE_LESS))
}


def pending(tx: Tx) -> list[PendingApprovalRow]:
    """Returns every approval that waits for a person, with its workflow's name, oldest first."""
    return tx.all(_PENDING)


def find(tx: Tx, approval_id: str) -> FoundApprovalRow | None:
    """Returns an approval with its run's status, or None."""
    return tx.first(_FIND, of_approval_id=approval_id)


def decide(tx: Tx, approval_id: str, *, state: str, actor: str, comment: str | None, at: int) -> None:
    """Writes the decision on an approval that waits for one."""
    tx.enqueue(_DECIDE, of_approval_id=approval_id, new_state=state, actor=actor, new_comment=comment, at_ms=at)


def finish_step(
    tx: Tx, run_id: str, step: str, *, status: str, value: str, error: tuple[str, str] | None, at: int
) -> None:
    """Writes the end of a decision's step, with code and message of an error, and the run's counters."""
    code, message = error or (None, None)
    tx.enqueue(
        _FINISH_STEP,
        of_run_id=run_id,
        of_step=step,
        new_status=status,
        new_value=value,
        new_error_code=code,
        new_error_message=message,
        at_ms=at,
    )
    tx.enqueue(_COUNT[status == StepStatus.COMPLETED], of_run_id=run_id)
