"""Ends of approvals that nobody decides: reminders and deadlines, each of which takes effect once.

Any number of processes may try: each try reads the approval again under its run's lock, as a decision does.
"""

from collections.abc import Mapping
from typing import Final

from backend.common import json_text
from backend.common.clock import HOUR_MS, to_text
from backend.common.states import ApprovalState, DeadlineAction, SegmentState, StepStatus
from backend.services.audit import sql as audit
from backend.services.runs import approvals_sql, in_flight_sql, lifecycle, lifecycle_sql
from backend.services.runs.change_records import SEGMENT_ENDED, NewEvent, begin_events
from backend.services.runs.lifecycle import Statement
from backend.services.webhooks.rules import WebhookEvent
from backend.services.webhooks.sql import add_messages
from backend.services.workflows.resolved_workflow import ApprovalTerms
from backend.storage.database import Tx
from contract.failure_codes import INVARIANT_BLOCKED

ACTOR: Final = "system"
"""Actor of the audit trail."""

COMMENT: Final = "deadline"
"""Comment of a rejection by a deadline."""

_ERRORS: Final[Mapping[DeadlineAction, str]] = {
    DeadlineAction.REJECT: "The approval was rejected, because nobody decided it before its deadline.",
    DeadlineAction.FAIL: "The approval was not decided before its deadline.",
}
_STATES: Final[Mapping[DeadlineAction, ApprovalState]] = {
    DeadlineAction.REJECT: ApprovalState.REJECTED,
    DeadlineAction.FAIL: ApprovalState.EXPIRED,
}


def end_columns(terms: ApprovalTerms | None, at: int) -> dict[str, object]:
    """Returns the columns of a new approval, requested at `at`, that say how it ends and who may decide it."""
    if terms is None:
        return dict.fromkeys(("deadline_at", "on_deadline", "remind_at", "approvers", "form_schema"))
    return {
        "deadline_at": _after(at, terms.deadline_hours),
        "on_deadline": None if terms.deadline_hours is None else terms.on_deadline,
        "remind_at": _after(at, terms.remind_hours),
        "approvers": None if terms.approvers is None else json_text.write(terms.approvers),
        "form_schema": None if terms.form_schema is None else json_text.write(terms.form_schema),
    }


def _after(at: int, hours: float | None) -> int | None:
    return None if hours is None else at + round(hours * HOUR_MS)


def expire(tx: Tx, approval_id: str, at: int) -> bool:
    """Ends a pending approval whose deadline has passed, as its step says; returns False where there is none."""
    row = approvals_sql.find(tx, approval_id)
    if row is None or row.state != ApprovalState.PENDING or row.deadline_at is None or at < row.deadline_at:
        return False
    action = DeadlineAction(row.on_deadline or DeadlineAction.REJECT)
    rejects = action is DeadlineAction.REJECT
    state, said = _STATES[action], Statement(COMMENT if rejects else None, None)
    if in_flight_sql.lock(tx, row.run_id) is None:
        return False
    if not approvals_sql.decide(tx, approval_id, state=state, actor=None, comment=said.comment, form=None, at=at):
        return False
    approvals_sql.finish_step(
        tx,
        row.run_id,
        row.step,
        status=StepStatus.BLOCKED,
        value=lifecycle.decision_value(state, said, at) if rejects else None,
        error=(INVARIANT_BLOCKED, _ERRORS[action]),
        at=at,
    )
    lifecycle.continue_run(tx, row.run_id, at)
    details = {"run_id": row.run_id, "on_deadline": action}
    audit.record(tx, at=at, actor=ACTOR, action="approval.expired", target=approval_id, details=details)
    add_messages(tx, WebhookEvent.APPROVAL_EXPIRED, row.run_id, at)
    tx.changes_run(row.run_id, row.key_id)
    return True


def remind(tx: Tx, approval_id: str, at: int) -> bool:
    """Records the reminder of a pending approval, once; returns False where none is due, or it must wait.

    It waits while the next segment of its run is queued, which takes no events. The event of a parked run gets a
    segment of its own.
    """
    row = approvals_sql.find(tx, approval_id)
    if row is None or row.state != ApprovalState.PENDING or row.remind_at is None or at < row.remind_at:
        return False
    if row.deadline_at is not None and at >= row.deadline_at:
        return False
    if in_flight_sql.lock(tx, row.run_id) is None:
        return False
    open_segments = lifecycle_sql.open_segments(tx, row.run_id)
    running = next((each.segment_id for each in open_segments if each.state == SegmentState.RUNNING), None)
    if open_segments and running is None:
        return False
    if not approvals_sql.reminded(tx, approval_id, at):
        return False
    deadline = None if row.deadline_at is None else to_text(row.deadline_at)
    event = NewEvent("approval.reminded", row.step, {"approval_id": approval_id, "deadline_at": deadline})
    if running is not None:
        lifecycle.append_events(tx, running, at, [event])
    else:
        segment_id = lifecycle.queue_segment(tx, row.run_id, at)
        begun = lifecycle_sql.start_closing_segment(tx, segment_id, at)
        lifecycle.append_events(tx, segment_id, at, [*begin_events(begun.ordinal), event, SEGMENT_ENDED])
        lifecycle_sql.end_segment(tx, segment_id, at)
    add_messages(tx, WebhookEvent.APPROVAL_REMINDED, row.run_id, at)
    tx.changes_run(row.run_id, row.key_id)
    return True
