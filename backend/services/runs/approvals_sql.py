"""SQL that lists, finds and decides approvals, and finds due deadlines and reminders."""

from collections.abc import Mapping
from itertools import combinations
from typing import Final, NamedTuple

from sqlalchemy import BigInteger, ColumnElement, Text, bindparam, func, literal_column, tuple_, update

from backend.common.states import ApprovalState, StepStatus
from backend.services.runs.sql import STARTED_BY
from backend.storage.database import Tx
from backend.storage.statements import Command, Query, select_row
from backend.storage.tables.keys import api_keys
from backend.storage.tables.runs import runs
from backend.storage.tables.segments import LAST_PLACE, approvals, steps


class PendingApprovalRow(NamedTuple):
    """A pending approval with its run; the key's name is None where no key started the run."""

    approval_id: str
    run_id: str
    workflow_name: str
    segment_id: str
    step: str
    title: str
    instructions: str | None
    requested_at: int
    workflow_id: str
    version: int
    client_reference: str | None
    labels: str
    triggered_by: str
    key_id: str
    key_name: str | None
    started_by: str | None
    deadline_at: int | None
    on_deadline: str | None
    reminded_at: int | None
    approvers: str | None
    form_schema: str | None
    summary: str | None


class FoundApprovalRow(NamedTuple):
    """An approval with its state, and with the key and status of its run."""

    approval_id: str
    run_id: str
    key_id: str
    step: str
    state: str
    status: str
    deadline_at: int | None
    on_deadline: str | None
    remind_at: int | None
    approvers: str | None
    form_schema: str | None


class DueApprovalRow(NamedTuple):
    """A pending approval whose deadline or reminder is due."""

    approval_id: str
    run_id: str


_ONE: ColumnElement[int] = literal_column("1")
_FILTERS: Final = {"workflow_id": runs.c.workflow_id, "step": approvals.c.step, "run_id": approvals.c.run_id}

NO_DEADLINE: Final = LAST_PLACE
"""Sort key of approvals without a deadline, in milliseconds."""

_AFTER: Final = bindparam("after", type_=BigInteger)
_ORDERS: Final[Mapping[bool, ColumnElement[int]]] = {
    False: approvals.c.requested_at,
    True: func.coalesce(approvals.c.deadline_at, literal_column(str(NO_DEADLINE))),
}


def _pending(filters: tuple[str, ...], *, by_deadline: bool) -> Query[PendingApprovalRow]:
    order = _ORDERS[by_deadline]
    return Query(
        PendingApprovalRow,
        select_row(PendingApprovalRow, approvals, runs, key_name=api_keys.c.name, started_by=STARTED_BY)
        .join(runs, runs.c.run_id == approvals.c.run_id)
        .outerjoin(api_keys, api_keys.c.key_id == runs.c.key_id)
        .where(
            approvals.c.state == literal_column(f"'{ApprovalState.PENDING}'"),
            tuple_(order, approvals.c.approval_id) > tuple_(_AFTER, bindparam("after_id", type_=Text)),
            # SQLite seeks no expression of an index by a comparison of tuples.
            *((order >= _AFTER,) if by_deadline else ()),
            *(_FILTERS[name] == bindparam(f"of_{name}", type_=Text) for name in filters),
        )
        .order_by(order, approvals.c.approval_id)
        .limit(bindparam("limit")),
    )


_PENDING: Final = {
    (filters, by_deadline): _pending(filters, by_deadline=by_deadline)
    for count in range(len(_FILTERS) + 1)
    for filters in combinations(_FILTERS, count)
    for by_deadline in (False, True)
}
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
        form=bindparam("new_form"),
    )
)
_IS_PENDING: Final = approvals.c.state == literal_column(f"'{ApprovalState.PENDING}'")
_NOW: Final = bindparam("now", type_=BigInteger)
# One query for each partial index.
_EXPIRING: Final = Query(
    DueApprovalRow,
    select_row(DueApprovalRow, approvals)
    .where(_IS_PENDING, approvals.c.deadline_at.is_not(None), approvals.c.deadline_at <= _NOW)
    .order_by(approvals.c.deadline_at)
    .limit(bindparam("limit")),
)
_REMINDING: Final = Query(
    DueApprovalRow,
    select_row(DueApprovalRow, approvals)
    .where(_IS_PENDING, approvals.c.remind_at.is_not(None), approvals.c.remind_at <= _NOW)
    .order_by(approvals.c.remind_at)
    .limit(bindparam("limit")),
)
_REMINDED: Final = Command(
    update(approvals)
    .where(approvals.c.approval_id == bindparam("of_approval_id"), _IS_PENDING)
    .values(remind_at=None, reminded_at=bindparam("at_ms"))
)
_FINISH_STEP = Command(
    update(steps)
    .where(
        steps.c.run_id == bindparam("of_run_id"),
        steps.c.step == bindparam("of_step"),
        steps.c.status == literal_column(f"'{StepStatus.WAITING}'"),
    )
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


def pending(
    tx: Tx,
    *,
    after: int,
    after_id: str,
    limit: int,
    workflow_id: str | None = None,
    step: str | None = None,
    run_id: str | None = None,
    by_deadline: bool = False,
) -> list[PendingApprovalRow]:
    """Returns a page of pending approvals after the position (`after`, `after_id`).

    The order is by the time of the request, or of the deadline, then by id.
    """
    # In the order of the filters.
    asked = {"workflow_id": workflow_id, "step": step, "run_id": run_id}
    given = {name: value for name, value in asked.items() if value is not None}
    filters = {f"of_{name}": value for name, value in given.items()}
    return tx.all(_PENDING[tuple(given), by_deadline], after=after, after_id=after_id, limit=limit, **filters)


def find(tx: Tx, approval_id: str) -> FoundApprovalRow | None:
    """Returns an approval with its run's status, or None."""
    return tx.first(_FIND, of_approval_id=approval_id)


def decide(
    tx: Tx, approval_id: str, *, state: str, actor: str | None, comment: str | None, form: str | None, at: int
) -> bool:
    """Settles a pending approval, with `actor` None for its deadline; returns False if it is not pending."""
    changed = tx.run(
        _DECIDE,
        of_approval_id=approval_id,
        new_state=state,
        actor=actor,
        new_comment=comment,
        new_form=form,
        at_ms=at,
    )
    return changed == 1


def expiring(tx: Tx, now: int, limit: int) -> list[DueApprovalRow]:
    """Returns approvals whose deadline has passed, the earliest first."""
    return tx.all(_EXPIRING, now=now, limit=limit)


def reminding(tx: Tx, now: int, limit: int) -> list[DueApprovalRow]:
    """Returns approvals whose reminder is due, the earliest first."""
    return tx.all(_REMINDING, now=now, limit=limit)


def mark_reminded(tx: Tx, approval_id: str, at: int) -> bool:
    """Records that the reminder of a pending approval was sent; returns False if it is not pending."""
    return tx.run(_REMINDED, of_approval_id=approval_id, at_ms=at) == 1


def finish_step(
    tx: Tx, run_id: str, step: str, *, status: str, value: str | None, error: tuple[str, str] | None, at: int
) -> None:
    """Ends the step of a decided approval, with code and message of an error, and counts it on the run.

    A step that no longer waits for the decision stays unchanged.
    """
    code, message = error or (None, None)
    finished = tx.run(
        _FINISH_STEP,
        of_run_id=run_id,
        of_step=step,
        new_status=status,
        new_value=value,
        new_error_code=code,
        new_error_message=message,
        at_ms=at,
    )
    tx.announce(run_id)
    tx.enqueue(_COUNT[finished == 1 and status == StepStatus.COMPLETED], of_run_id=run_id)
