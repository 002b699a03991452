"""SQL that lists, finds, assigns, snoozes and decides approvals, and finds due deadlines and reminders."""

from collections.abc import Collection, Mapping
from enum import StrEnum
from itertools import combinations
from typing import Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Text,
    bindparam,
    delete,
    exists,
    func,
    insert,
    literal_column,
    tuple_,
    update,
)

from backend.common.states import ApprovalState, StepStatus
from backend.services.runs.sql import STARTED_BY
from backend.storage.database import Tx
from backend.storage.sql_expressions import is_listed, listed
from backend.storage.statements import Command, Query, select_row
from backend.storage.tables.keys import api_keys
from backend.storage.tables.runs import runs
from backend.storage.tables.segments import LAST_PLACE, approval_snoozes, approvals, steps


class PendingView(StrEnum):
    """A part of the pending approvals, for one person."""

    ALL = "all"
    AWAKE = "awake"
    MINE = "mine"
    SNOOZED = "snoozed"


class Onlooker(NamedTuple):
    """The person who looks at approvals, empty for nobody, and the present time."""

    person: str
    at: int


class PendingApprovalRow(NamedTuple):
    """A pending approval with its run; the key's name is None where no key started the run.

    `snoozed_until` is of the person who looks.
    """

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
    tool_call: str | None
    assigned_to: str | None
    snoozed_until: int | None


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
    tool_call: str | None


class DueApprovalRow(NamedTuple):
    """A pending approval whose deadline or reminder is due."""

    approval_id: str
    run_id: str


_ONE: ColumnElement[int] = literal_column("1")
_FILTERS: Final[Mapping[str, ColumnElement[bool]]] = {
    "workflow_ids": is_listed(runs.c.workflow_id, "of_workflow_ids"),
    "step": approvals.c.step == bindparam("of_step", type_=Text),
    "run_id": approvals.c.run_id == bindparam("of_run_id", type_=Text),
}

NO_DEADLINE: Final = LAST_PLACE
"""Sort key of approvals without a deadline, in milliseconds."""

_AFTER: Final = bindparam("after", type_=BigInteger)
_ORDERS: Final[Mapping[bool, ColumnElement[int]]] = {
    False: approvals.c.requested_at,
    True: func.coalesce(approvals.c.deadline_at, literal_column(str(NO_DEADLINE))),
}


_PERSON: Final = bindparam("of_person", type_=Text)
_SNOOZED: Final = approval_snoozes.c.until.is_not(None)
_VIEWS: Final[Mapping[PendingView, tuple[ColumnElement[bool], ...]]] = {
    PendingView.ALL: (),
    PendingView.AWAKE: (~_SNOOZED,),
    PendingView.MINE: (approvals.c.assigned_to == _PERSON,),
    PendingView.SNOOZED: (_SNOOZED,),
}
PENDING_APPROVALS: Final = (
    select_row(
        PendingApprovalRow,
        approvals,
        runs,
        key_name=api_keys.c.name,
        started_by=STARTED_BY,
        snoozed_until=approval_snoozes.c.until,
    )
    .join(runs, runs.c.run_id == approvals.c.run_id)
    .outerjoin(api_keys, api_keys.c.key_id == runs.c.key_id)
    .outerjoin(
        approval_snoozes,
        (approval_snoozes.c.approval_id == approvals.c.approval_id)
        & (approval_snoozes.c.person == _PERSON)
        & (approval_snoozes.c.until > bindparam("of_now", type_=BigInteger)),
    )
)
"""Approvals with their runs, for the person `of_person` at the time `of_now`."""


def _pending(filters: tuple[str, ...], view: PendingView, *, by_deadline: bool) -> Query[PendingApprovalRow]:
    order = _ORDERS[by_deadline]
    return Query(
        PendingApprovalRow,
        PENDING_APPROVALS.where(
            *_VIEWS[view],
            approvals.c.state == literal_column(f"'{ApprovalState.PENDING}'"),
            tuple_(order, approvals.c.approval_id) > tuple_(_AFTER, bindparam("after_id", type_=Text)),
            # SQLite seeks no expression of an index by a comparison of tuples.
            *((order >= _AFTER,) if by_deadline else ()),
            *(_FILTERS[name] for name in filters),
        )
        .order_by(order, approvals.c.approval_id)
        .limit(bindparam("limit")),
    )


_PENDING: Final = {
    (filters, view, by_deadline): _pending(filters, view, by_deadline=by_deadline)
    for count in range(len(_FILTERS) + 1)
    for filters in combinations(_FILTERS, count)
    for view in PendingView
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
_ASSIGN = Command(
    update(approvals)
    .where(approvals.c.approval_id == bindparam("of_approval_id"))
    .values(assigned_to=bindparam("new_person"))
)
_WAKE = Command(
    delete(approval_snoozes).where(
        approval_snoozes.c.approval_id == bindparam("of_approval_id"), approval_snoozes.c.person == _PERSON
    )
)
_SNOOZE = Command(
    insert(approval_snoozes).values(
        approval_id=bindparam("approval_id"), person=bindparam("person"), until=bindparam("until")
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
_OTHERS: Final = approvals.alias("others")
_RELEASE_STEP = Command(
    update(steps)
    .where(
        steps.c.run_id == bindparam("of_run_id"),
        steps.c.step == bindparam("of_step"),
        steps.c.status == literal_column(f"'{StepStatus.WAITING}'"),
        ~exists().where(
            _OTHERS.c.run_id == bindparam("of_run_id"),
            _OTHERS.c.step == bindparam("of_step"),
            _OTHERS.c.state == literal_column(f"'{ApprovalState.PENDING}'"),
        ),
    )
    .values(status=StepStatus.PENDING)
)
_ONE_LESS: Final = {"approvals_pending": runs.c.approvals_pending - _ONE}
_ONE_COMPLETED: Final = {"steps_completed": runs.c.steps_completed + _ONE}
_COUNT: Final[Mapping[bool, Command]] = {
    completed: Command(update(runs).where(runs.c.run_id == bindparam("of_run_id")).values(changes))
    for completed, changes in ((True, _ONE_LESS | _ONE_COMPLETED), (False, _ONE_LESS))
}


def pending(
    tx: Tx,
    onlooker: Onlooker,
    *,
    view: PendingView = PendingView.ALL,
    after: int,
    after_id: str,
    limit: int,
    workflow_ids: Collection[str] | None = None,
    step: str | None = None,
    run_id: str | None = None,
    by_deadline: bool = False,
) -> list[PendingApprovalRow]:
    """Returns a page of pending approvals, of all or of some workflows, after the position (`after`, `after_id`).

    The order is by the time of the request, or of the deadline, then by id.
    """
    # In the order of the filters.
    of = None if workflow_ids is None else listed(workflow_ids)
    asked = {"workflow_ids": of, "step": step, "run_id": run_id}
    given = {name: value for name, value in asked.items() if value is not None}
    filters = {f"of_{name}": value for name, value in given.items()}
    filters |= {"of_person": onlooker.person}
    return tx.all(
        _PENDING[tuple(given), view, by_deadline],
        of_now=onlooker.at,
        after=after,
        after_id=after_id,
        limit=limit,
        **filters,
    )


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


def assign(tx: Tx, approval_id: str, person: str | None) -> None:
    """Assigns an approval to a person, None for nobody."""
    tx.run(_ASSIGN, of_approval_id=approval_id, new_person=person)


def snooze(tx: Tx, approval_id: str, person: str, until: int | None) -> None:
    """Snoozes an approval for a person until a time; None wakes it."""
    tx.run(_WAKE, of_approval_id=approval_id, of_person=person)
    if until is not None:
        tx.run(_SNOOZE, approval_id=approval_id, person=person, until=until)


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


def release_step(tx: Tx, run_id: str, step: str) -> None:
    """Lets a step go on once all of its calls of tools are decided, and counts one approval less."""
    tx.run(_RELEASE_STEP, of_run_id=run_id, of_step=step)
    tx.announce(run_id)
    tx.enqueue(_COUNT[False], of_run_id=run_id)
