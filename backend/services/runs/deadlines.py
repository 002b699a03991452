"""Reminders and deadlines of pending approvals; each takes effect once.

Several processes may try: each reads the approval again under the lock of its run, as a decision does.
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
from backend.services.workflows.resolved_workflow import ApprovalSettings
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


def end_columns(settings: ApprovalSettings | None, at: int) -> dict[str, object]:
    """Returns deadline, reminder, approvers and form columns of a new approval, requested at `at`."""
    if settings is None:
        return dict.fromkeys(("deadline_at", "on_deadline", "remind_at", "approvers", "form_schema"))
    return {
        "deadline_at": _after(at, settings.deadline_hours),
        "on_deadline": None if settings.deadline_hours is None else settings.on_deadline,
        "remind_at": _after(at, settings.remind_hours),
        "approvers": None if settings.approvers is None else json_text.write(settings.approvers),
        "form_schema": None if settings.form_schema is None else json_text.write(settings.form_schema),
    }


def _after(at: int, hours: float | None) -> int | None:
    return None if hours is None else at + round(hours * HOUR_MS)


def expire(tx: Tx, approval_id: str, at: int) -> bool:
    """Rejects or expires a pending approval whose deadline has passed; returns False if it is not due."""
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
    if row.tool_call is not None:
        approvals_sql.release_step(tx, row.run_id, row.step)
    else:
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
    """Records the reminder of a pending approval, once; returns False if it is not due or must wait.

    It must wait while the run's next segment is queued, which takes no events. For a parked run, a segment is written
    that holds only this event.
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
    if not approvals_sql.mark_reminded(tx, approval_id, at):
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
