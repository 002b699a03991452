"""SQL of the outbox of notifications: what changes and findings write, claims, and outcomes of attempts."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    Text,
    bindparam,
    cast,
    delete,
    func,
    insert,
    literal_column,
    null,
    or_,
    select,
    tuple_,
    update,
)

from backend.common.clock import DAY_MS
from backend.common.ids import new_id
from backend.common.json_text import canonical
from backend.common.states import ApprovalState, StepStatus
from backend.services.notifications.rules import ANNOUNCED, QUIET_MS, RUN_EVENTS, AttemptOutcome, NotificationEvent
from backend.storage.database import Tx
from backend.storage.retention import RowRetention
from backend.storage.sql_expressions import Purge, containing, is_listed
from backend.storage.statements import Command, Query, ScalarQuery, select_row
from backend.storage.tables.notifications import NotificationTargetRow, notification_targets, notifications
from backend.storage.tables.runs import NO_CHILD, runs
from backend.storage.tables.segments import approvals, steps
from backend.storage.tables.workflows import workflows

MOST_PENDING: Final = 1_000
"""Most messages that wait for one target; further ones are dropped."""


class ClaimedNotificationRow(NamedTuple):
    """A message that this process has claimed to send."""

    target: str
    message_id: str
    event: str
    run_id: str | None
    workflow_id: str | None
    workflow_name: str | None
    details: str | None
    occurred_at: int
    attempts: int


class TargetRules(NamedTuple):
    """Events and workflows of a target, as in the columns of its row."""

    events: str
    workflows: str | None


class PendingOfTargetRow(NamedTuple):
    """A target with the number of messages that wait for it."""

    target: str
    pending: int


_TARGET: BindParameter[str] = bindparam("of_target")
_MESSAGE: BindParameter[str] = bindparam("of_message_id")
_CLAIM: BindParameter[str] = bindparam("of_claim")
_AT = cast(bindparam("at_ms"), BigInteger)
_ONE: ColumnElement[int] = literal_column("1")

_TARGETS = Query(
    NotificationTargetRow, select_row(NotificationTargetRow, notification_targets).order_by(notification_targets.c.name)
)
_ADD_TARGET = Command(insert(notification_targets), ["name", *TargetRules._fields])
_CHANGE_TARGET = Command(
    update(notification_targets)
    .where(notification_targets.c.name == _TARGET)
    .values(events=bindparam("new_events"), workflows=bindparam("new_workflows"))
)
_REMOVE_TARGET = Command(delete(notification_targets).where(notification_targets.c.name == _TARGET))

_HAS_ROOM = (
    select(func.count())
    .select_from(notifications)
    .where(notifications.c.target == notification_targets.c.name, notifications.c.due_at.is_not(None))
    .scalar_subquery()
) < literal_column(str(MOST_PENDING))
_SUBSCRIBES = notification_targets.c.events.like(bindparam("of_event", type_=Text), escape="\\")
_OF_ALL_WORKFLOWS = notification_targets.c.workflows.is_(null())


def _names(workflow: ColumnElement[str]) -> ColumnElement[bool]:
    return or_(_OF_ALL_WORKFLOWS, is_listed(workflow, notification_targets.c.workflows))


_COLUMNS: Final = (
    "message_id",
    "target",
    "event",
    "subject",
    "run_id",
    "workflow_id",
    "details",
    "occurred_at",
    "due_at",
    "attempts",
)


def _add_of_run(event: NotificationEvent) -> Command:
    messages = (
        select(
            cast(bindparam("new_message_id"), Text),
            notification_targets.c.name,
            literal_column(f"'{event}'"),
            runs.c.run_id,
            runs.c.run_id,
            runs.c.workflow_id,
            null(),
            _AT,
            _AT,
            literal_column("0"),
        )
        .select_from(runs)
        .join(notification_targets, _SUBSCRIBES)
        .where(runs.c.run_id == bindparam("of_run_id"), NO_CHILD, _names(runs.c.workflow_name), _HAS_ROOM)
    )
    return Command(insert(notifications).from_select(_COLUMNS, messages))


_ADD_OF_RUN: Final[Mapping[NotificationEvent, Command]] = {event: _add_of_run(event) for event in RUN_EVENTS}
_IS_REPEATED = (
    select(_ONE)
    .select_from(notifications)
    .where(
        notifications.c.target == notification_targets.c.name,
        notifications.c.event == cast(bindparam("new_event"), Text),
        notifications.c.subject == cast(bindparam("new_subject"), Text),
        notifications.c.occurred_at > cast(bindparam("since_ms"), BigInteger),
    )
    .exists()
)
_NAMES_WORKFLOW = or_(
    cast(bindparam("new_workflow_id"), Text).is_(null()),
    select(_ONE)
    .select_from(workflows)
    .where(workflows.c.workflow_id == cast(bindparam("new_workflow_id"), Text), _names(workflows.c.name))
    .correlate(notification_targets)
    .exists(),
)
_ADD = Command(
    insert(notifications).from_select(
        [name for name in _COLUMNS if name != "run_id"],
        select(
            cast(bindparam("new_message_id"), Text),
            notification_targets.c.name,
            cast(bindparam("new_event"), Text),
            cast(bindparam("new_subject"), Text),
            cast(bindparam("new_workflow_id"), Text),
            cast(bindparam("new_details"), Text),
            _AT,
            _AT,
            literal_column("0"),
        )
        .select_from(notification_targets)
        .where(_SUBSCRIBES, _NAMES_WORKFLOW, _HAS_ROOM, ~_IS_REPEATED),
    )
)

_IS_DUE: Final = (notifications.c.due_at.is_not(None), notifications.c.due_at <= bindparam("at_ms"))
_BUSY = notifications.alias("busy")
_FIRST_DUE = (
    select(notifications.c.target, notifications.c.message_id)
    .where(
        notifications.c.target == _TARGET,
        *_IS_DUE,
        # One process sends to a target at a time; a claim that has lapsed is due.
        ~select(_ONE)
        .select_from(_BUSY)
        .where(
            _BUSY.c.target == _TARGET,
            _BUSY.c.due_at.is_not(None),
            _BUSY.c.due_at > bindparam("at_ms"),
            _BUSY.c.claim.is_not(None),
        )
        .exists(),
    )
    .order_by(notifications.c.due_at)
    .limit(_ONE)
)
_TAKE = Command(
    update(notifications)
    .where(tuple_(notifications.c.target, notifications.c.message_id).in_(_FIRST_DUE), *_IS_DUE)
    .values(claim=_CLAIM, due_at=bindparam("lapses_at"), attempts=notifications.c.attempts + _ONE)
)
_TAKEN = Query(
    ClaimedNotificationRow,
    select_row(
        ClaimedNotificationRow,
        notifications,
        workflow_name=func.coalesce(runs.c.workflow_name, workflows.c.name),
    )
    .outerjoin(runs, runs.c.run_id == notifications.c.run_id)
    .outerjoin(workflows, workflows.c.workflow_id == notifications.c.workflow_id)
    .where(
        notifications.c.target == _TARGET,
        notifications.c.due_at.is_not(None),
        notifications.c.due_at == bindparam("lapses_at"),
        notifications.c.claim == _CLAIM,
    ),
)
_OF_CLAIM: Final = (
    notifications.c.target == _TARGET,
    notifications.c.message_id == _MESSAGE,
    notifications.c.claim == _CLAIM,
)
_SETTLE = Command(update(notifications).where(*_OF_CLAIM).values(claim=null(), due_at=bindparam("next_at")))
_DELIVERED = Command(
    update(notification_targets).where(notification_targets.c.name == _TARGET).values(delivered_at=_AT, error=null())
)
_FAILED = Command(
    update(notification_targets)
    .where(notification_targets.c.name == _TARGET)
    .values(failed_at=_AT, error=bindparam("new_error"))
)
_NEXT_DUE = ScalarQuery[int](
    select(func.min(notifications.c.due_at)).where(
        notifications.c.target == _TARGET, notifications.c.due_at.is_not(None)
    )
)
_WAITING = Query(
    PendingOfTargetRow,
    select(notifications.c.target, func.count().label("pending"))
    .where(notifications.c.due_at.is_not(None))
    .group_by(notifications.c.target),
)
_FAILED_STEP = ScalarQuery[str](
    select(steps.c.step)
    .where(steps.c.run_id == bindparam("of_run_id"), steps.c.status == literal_column(f"'{StepStatus.FAILED}'"))
    .order_by(steps.c.position)
    .limit(_ONE)
)
_WAITING_STEP = ScalarQuery[str](
    select(approvals.c.step)
    .where(
        approvals.c.run_id == bindparam("of_run_id"), approvals.c.state == literal_column(f"'{ApprovalState.PENDING}'")
    )
    .order_by(approvals.c.requested_at, approvals.c.approval_id)
    .limit(_ONE)
)

purge = Purge(notifications, notifications.c.occurred_at)
RETENTION: Final = (RowRetention("notifications", 30 * DAY_MS, purge),)


def targets(tx: Tx) -> list[NotificationTargetRow]:
    """Returns all targets by name."""
    return tx.all(_TARGETS)


def pending_of_targets(tx: Tx) -> dict[str, int]:
    """Returns the number of messages that wait, by target; none of them has more than about `MOST_PENDING`."""
    return {row.target: row.pending for row in tx.all(_WAITING)}


def set_targets(tx: Tx, rules: Mapping[str, TargetRules]) -> None:
    """Makes the targets those of the settings, by name. Others leave with their messages."""
    present = {row.name: row for row in targets(tx)}
    for name in present.keys() - rules.keys():
        tx.enqueue(_REMOVE_TARGET, of_target=name)
    for name, (events, names) in rules.items():
        if name not in present:
            tx.enqueue(_ADD_TARGET, name=name, events=events, workflows=names)
        else:
            tx.enqueue(_CHANGE_TARGET, of_target=name, new_events=events, new_workflows=names)


def notify_of_run(tx: Tx, event: NotificationEvent, run_id: str, at: int) -> None:
    """Writes the messages of a change of a run, after the change; runs that other runs started are left out."""
    tx.announce(ANNOUNCED)
    tx.enqueue(
        _ADD_OF_RUN[event],
        of_run_id=run_id,
        of_event=containing(canonical(event)),
        new_message_id=new_id("msg"),
        at_ms=at,
    )


def notify(
    tx: Tx,
    event: NotificationEvent,
    subject: str,
    details: Mapping[str, str],
    at: int,
    *,
    workflow_id: str | None = None,
) -> None:
    """Writes the messages of an event about `subject`, unless one was written within the event's quiet time."""
    tx.announce(ANNOUNCED)
    tx.enqueue(
        _ADD,
        of_event=containing(canonical(event)),
        new_event=event,
        new_subject=subject,
        new_workflow_id=workflow_id,
        new_details=canonical(dict(details)),
        new_message_id=new_id("msg"),
        at_ms=at,
        since_ms=at - QUIET_MS[event],
    )


def claim(tx: Tx, target: str, claim_id: str, at: int, lapses_at: int) -> ClaimedNotificationRow | None:
    """Claims the due message of a target that is longest due until `lapses_at`; the caller holds the target's lock."""
    asked = {"of_target": target, "of_claim": claim_id, "lapses_at": lapses_at}
    return tx.first(_TAKEN, **asked) if tx.run(_TAKE, at_ms=at, **asked) else None


def next_due(tx: Tx, target: str) -> int | None:
    """Returns when the next message of a target is due."""
    return tx.scalar(_NEXT_DUE, of_target=target)


def settle(tx: Tx, row: ClaimedNotificationRow, claim_id: str, next_at: int | None) -> bool:
    """Ends a claim, with the time of another attempt or None; returns False if another process has the message."""
    return bool(tx.run(_SETTLE, of_target=row.target, of_message_id=row.message_id, of_claim=claim_id, next_at=next_at))


def record_outcome(tx: Tx, target: str, outcome: AttemptOutcome, at: int) -> None:
    """Records the outcome of an attempt at a target."""
    if outcome.taken:
        tx.enqueue(_DELIVERED, of_target=target, at_ms=at)
    if outcome.error is not None:
        tx.enqueue(_FAILED, of_target=target, at_ms=at, new_error=outcome.error)


def step_of(tx: Tx, event: str, run_id: str) -> str | None:
    """Returns the step that failed, or that waits for a decision."""
    return tx.scalar(_FAILED_STEP if event == NotificationEvent.RUN_FAILED else _WAITING_STEP, of_run_id=run_id)
