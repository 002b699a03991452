"""State transitions of runs and segments in the tables, with the events that record them; a run closes once.

Every function runs inside a write transaction. An ended segment takes no more events: a process that still executes
it gets `SegmentEndedError`, which rolls the transaction back.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from backend.common import json_text, metrics, workflow_metrics
from backend.common.clock import to_text
from backend.common.ids import new_id
from backend.common.json_text import JsonMapping, JsonObject
from backend.common.states import ROOM, RUN_TERMINAL, ApprovalState, RunStatus, SegmentState
from backend.services.notifications.rules import NotificationEvent
from backend.services.notifications.sql import notify_of_run
from backend.services.runs import in_flight_sql, interruptions, lifecycle_sql, promotion_sql
from backend.services.runs.change_records import (
    SEGMENT_ENDED,
    NewEvent,
    begin_events,
    event_rows,
    log_change,
    log_steps,
)
from backend.services.webhooks.rules import WebhookEvent
from backend.services.webhooks.sql import add_messages
from backend.storage.database import Tx
from backend.storage.tables.segments import ApprovalRow
from contract import failure_codes

EVENT_OF_STATUS: Final[Mapping[str, str]] = {
    RunStatus.COMPLETED: "run.completed",
    RunStatus.FAILED: "run.failed",
    RunStatus.CANCELLED: "run.cancelled",
}


_PARENT_ENDED: Final = "The step that started it has ended."


class SegmentEndedError(Exception):
    """The segment is not running, so nothing may be recorded for it."""


class SegmentLease(NamedTuple):
    """The claim of a process, by its owner id, on a segment."""

    segment_id: str
    owner: str


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run; `value` is JSON text, None where it exceeds 262,144 bytes or does not fit its schema.

    `output_id`, `size_bytes` and `sha256` describe the output `result.json`, which exists for every result.
    """

    value: str | None = None
    output_id: str | None = None
    size_bytes: int | None = None
    sha256: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    summary_markdown: str | None = None


def append_event(
    tx: Tx, segment_id: str, event_type: str, at: int, *, step: str | None = None, data: JsonMapping | None = None
) -> int:
    """Writes one event of a running segment and returns its seq.

    Raises:
        SegmentEndedError: the segment does not run.
    """
    return append_events(tx, segment_id, at, [NewEvent(event_type, step, data)])


def append_events(tx: Tx, segment_id: str, at: int, new: Sequence[NewEvent]) -> int:
    """Writes events of a running segment in this order and returns the last seq; raises as `append_event`."""
    raised = lifecycle_sql.raise_last_seq(tx, segment_id, len(new))
    if raised is None:
        raise SegmentEndedError(segment_id)
    lifecycle_sql.add_events(tx, event_rows(segment_id, raised.last_seq - len(new) + 1, at, new))
    tx.announce(raised.run_id)
    log_steps(tx, raised.run_id, segment_id, new)
    return raised.last_seq


def begin_segment(tx: Tx, segment_id: str, owner: str, at: int, *, leased: bool = False) -> bool:
    """Claims a queued segment for `owner` and sets its run running; returns False if that is not possible.

    It is not if another process has claimed the segment, if the run has ended, which ends the segment, or if the lease
    of a `leased` owner was removed, since other processes would close the run as orphaned.

    Writes `segment.started`, for the first segment `run.started`, else `approval.decided` for each decision that the
    segment continues from. Under a PII policy, these events are written after the sweep of the comments.
    """
    begun = lifecycle_sql.take_segment(tx, segment_id, owner, at, leased=leased)
    if begun is None:
        in_flight_sql.end_left_segment(tx, segment_id)
        return False
    lifecycle_sql.set_running(tx, segment_id, at)
    _record_begin(tx, segment_id, begun, at)
    return True


class Statement(NamedTuple):
    """Comment of a decision and its form, as JSON text; both may hold personal data."""

    comment: str | None
    form: str | None


def settled_events(approval: ApprovalRow, said: Statement | None = None) -> list[NewEvent]:
    """Returns the events of a settled approval: its deadline, and its decision with comment and form, if given."""
    found = []
    about: JsonObject = {"approval_id": approval.approval_id}
    if approval.state != ApprovalState.APPROVED and approval.decided_by is None:
        found.append(NewEvent("approval.expired", approval.step, {**about, "on_deadline": approval.on_deadline}))
    if approval.state != ApprovalState.EXPIRED:
        about["decision"] = approval.state
        if said is not None:
            about["comment"] = said.comment
            if approval.form_schema is not None:
                about["form"] = _parsed(said.form)
        found.append(NewEvent("approval.decided", approval.step, about))
    return found


def decision_value(decision: str, said: Statement, decided_at: int) -> str:
    """Returns the value of a decided approval for the steps that need it, as JSON text."""
    value = {"decision": decision, "comment": said.comment, "form": _parsed(said.form)}
    return json_text.write({**value, "decided_at": to_text(decided_at)})


def _parsed(form: str | None) -> object:
    return None if form is None else json_text.parse(form)


def requeue_segment(tx: Tx, segment_id: str) -> None:
    """Makes a segment that did not begin ready for dispatch again; changes nothing if it began."""
    lifecycle_sql.requeue_segment(tx, segment_id)
    tx.announce(ROOM)


def park_run(tx: Tx, segment_id: str, at: int) -> None:
    """Ends a running segment whose run waits for an approval; closes the run if a cancellation was requested.

    Queues the next segment where an approval was decided while this one still ran.

    Raises:
        SegmentEndedError: the segment does not run.
    """
    run = lifecycle_sql.run_of_segment(tx, segment_id)
    if run is None:
        raise SegmentEndedError(segment_id)
    if run.cancel_requested_at is not None and not lifecycle_sql.has_last_steps(tx, run.run_id):
        close_run(tx, run.run_id, RunStatus.CANCELLED, at)
        return
    append_events(tx, segment_id, at, [SEGMENT_ENDED])
    lifecycle_sql.end_segment(tx, segment_id, at)
    tx.announce(ROOM)
    lifecycle_sql.set_waiting(tx, run.run_id)
    log_change(
        tx,
        run.run_id,
        RunStatus.RUNNING,
        RunStatus.WAITING,
        key_id=run.key_id,
        workflow_id=run.workflow_id,
        segment_id=segment_id,
    )
    if run.cancel_requested_at is not None:
        end_with_last_steps(tx, run.run_id, at)
    elif lifecycle_sql.has_decisions_to_continue(tx, run.run_id):
        continue_run(tx, run.run_id, at)
    else:
        add_messages(tx, WebhookEvent.RUN_WAITING, run.run_id, at)
        notify_of_run(tx, NotificationEvent.RUN_WAITING, run.run_id, at)


def continue_run(tx: Tx, run_id: str, at: int) -> None:
    """Queues the segment that continues from decided approvals; while a segment runs, `park_run` does it later.

    Changes nothing where the run has ended. The caller wakes the runtime after the commit.
    """
    if in_flight_sql.lock(tx, run_id) is None:
        return
    segments = lifecycle_sql.open_segments(tx, run_id)
    if any(segment.state == SegmentState.RUNNING for segment in segments):
        return
    segment_id = segments[0].segment_id if segments else queue_segment(tx, run_id, at)
    lifecycle_sql.continue_decisions(tx, run_id, segment_id)


def end_with_last_steps(tx: Tx, run_id: str, at: int) -> bool:
    """Queues a segment for the last steps of a parked run that must end; returns False if the run has none, or ended.

    The segment closes the run with the outcome that the run's row implies. The caller wakes the runtime.
    """
    if in_flight_sql.lock(tx, run_id) is None or not lifecycle_sql.has_last_steps(tx, run_id):
        return False
    lifecycle_sql.end_waiting(tx, run_id, at)
    if not lifecycle_sql.open_segments(tx, run_id):
        queue_segment(tx, run_id, at)
        tx.announce(ROOM)
    tx.announce(run_id)
    return True


def queue_segment(tx: Tx, run_id: str, at: int) -> str:
    """Adds the run's next segment to the table, from which the launcher takes it, and returns its id.

    The caller has locked the run as in flight, or begins the segment itself.
    """
    segment_id = new_id("seg")
    lifecycle_sql.add_segment(tx, segment_id, run_id, at)
    return segment_id


def complete_run(
    tx: Tx,
    segment_id: str,
    at: int,
    result: RunResult,
    warnings: Sequence[str],
    *,
    promoted: bool = False,
    add_output: Callable[[], object] = lambda: None,
) -> bool:
    """Closes a run whose steps have ended; returns True if it is completed, False if cancelled.

    A requested cancellation prevails, and drops the result: a caller whose request was accepted never finds the run
    completed. `promoted` says that the outputs were promoted before. `add_output` adds
    the output `result.json`, for completed runs only (contract 18.6).

    Raises:
        SegmentEndedError: the segment does not exist any more.
    """
    run = lifecycle_sql.run_of_segment(tx, segment_id)
    if run is None:
        raise SegmentEndedError(segment_id)
    if run.cancel_requested_at is not None:
        close_run(tx, run.run_id, RunStatus.CANCELLED, at, warnings=warnings, promoted=promoted)
        return False
    add_output()
    close_run(tx, run.run_id, RunStatus.COMPLETED, at, result=result, warnings=warnings, promoted=promoted)
    return True


def close_run(
    tx: Tx,
    run_id: str,
    status: str,
    at: int,
    *,
    error_code: str | None = None,
    error_message: str | None = None,
    lease: SegmentLease | None = None,
    result: RunResult | None = None,
    warnings: Sequence[str] = (),
    promoted: bool | None = None,
) -> bool:
    """Moves a run to a final status, once; returns False, and changes nothing, if it has one.

    Withdraws pending approvals, cancels unfinished steps and children, promotes the outputs of completed steps, writes
    the last events and ends every open segment; with `lease`, only while that owner executes that segment. A run that
    never began gets no events; for a parked run, a closing segment is written. `warnings` are added to the run's row.
    `promoted` says whether the outputs were promoted before; None where the caller does not know.
    """
    if status not in RUN_TERMINAL:
        raise ValueError(f"{status} is not a final status")
    if lease is not None and not lifecycle_sql.owns(tx, lease.segment_id, lease.owner):
        return False
    result = result or RunResult()
    if promoted is None:
        promoted = promotion_sql.has_promoted(tx, run_id)
    closed = lifecycle_sql.close(
        tx,
        run_id,
        status,
        finished_at=at,
        error_code=error_code,
        error_message=error_message,
        warnings=json_text.write([*json_text.parse(lifecycle_sql.warnings_of(tx, run_id)), *warnings])
        if warnings
        else None,
        result=result.value,
        result_output_id=result.output_id,
        result_size_bytes=result.size_bytes,
        result_sha256=result.sha256,
        result_error_code=result.error_code,
        result_error_message=result.error_message,
        summary_markdown=result.summary_markdown,
    )
    if closed is None:
        return False
    tx.announce(run_id)
    tx.announce(ROOM)
    lifecycle_sql.withdraw_approvals(tx, run_id, at)
    lifecycle_sql.cancel_steps(tx, run_id, at)
    before, closing = _closing_segment(tx, run_id, at)
    if closing is not None:
        # Comments may hold personal data, and an event never changes: unswept comments are left out.
        settled = lifecycle_sql.unrecorded_decisions(tx, run_id, closing)
        events = [event for approval in settled for event in settled_events(approval)]
        events += [] if promoted else _promotion(tx, run_id, at)
        failure = {"code": error_code, "message": error_message} if error_code else None
        events += [NewEvent(EVENT_OF_STATUS[status], data=failure), SEGMENT_ENDED]
        append_events(tx, closing, at, events)
    lifecycle_sql.end_segments(tx, run_id, at)
    if closed.has_children:
        cancel_children(tx, run_id, at)
    if status == RunStatus.COMPLETED or lifecycle_sql.is_unswept(tx, run_id):
        # A resumed run may need the shared files of a failed run; under a PII policy the final sweep removes them.
        promotion_sql.order_removal_of_shared_files(tx, run_id)
    if error_code == failure_codes.ORPHANED:
        interruptions.record(tx, run_id, at)
    if closed.has_webhooks:
        add_messages(tx, WebhookEvent.RUN_ENDED, run_id, at)
    if status == RunStatus.FAILED:
        notify_of_run(tx, NotificationEvent.RUN_FAILED, run_id, at)
    tx.after_commit(lambda: _count(closed, status, error_code or metrics.NO_REASON, at))
    log_change(
        tx,
        run_id,
        before,
        status,
        key_id=closed.key_id,
        workflow_id=closed.workflow_id,
        segment_id=closing,
        reason=error_code,
        milliseconds=at - closed.created_at,
    )
    return True


def cancel_children(tx: Tx, run_id: str, at: int) -> None:
    """Cancels the children of a run that have not ended, as `cancel_child`."""
    for child in lifecycle_sql.children_in_flight(tx, run_id):
        if tx.changed_runs:
            tx.changes_run(child.run_id, child.key_id)
        cancel_child(tx, child.run_id, at)


def cancel_child(tx: Tx, run_id: str, at: int) -> None:
    """Cancels a child, with its own children, as `cancel_run`; changes nothing if it has ended or was not started."""
    status = in_flight_sql.lock(tx, run_id)
    if status is not None:
        cancel_run(tx, run_id, status, at, _PARENT_ENDED)


def cancel_run(tx: Tx, run_id: str, status: str, at: int, reason: str | None) -> RunStatus:
    """Cancels a run in flight, given its status; returns its new status.

    A running run keeps its status until the process that executes it, which the caller informs, has ended it. For a
    parked run with steps of `on_failure` or `always`, a segment is queued. Any other run is closed at once.
    """
    lifecycle_sql.request_cancel(tx, run_id, at, reason)
    if status == RunStatus.RUNNING:
        return RunStatus.RUNNING
    if status == RunStatus.WAITING and end_with_last_steps(tx, run_id, at):
        return RunStatus.WAITING
    close_run(tx, run_id, RunStatus.CANCELLED, at)
    return RunStatus.CANCELLED


def _count(closed: lifecycle_sql.ClosedRunRow, status: str, reason: str, at: int) -> None:
    metrics.RUNS_ENDED.add(status, reason)
    seconds = max(0, at - closed.created_at) / 1000
    workflow_metrics.count_end(closed.workflow_id, closed.workflow_name, closed.key_id, status, reason, seconds)


def promote_outputs(tx: Tx, run_id: str, segment_id: str, at: int) -> None:
    """Promotes the outputs of an unfinished run, before they are published.

    Raises:
        SegmentEndedError: the segment does not run.
    """
    events = _promotion(tx, run_id, at)
    if events:
        promotion_sql.count_outputs(tx, run_id)
        append_events(tx, segment_id, at, events)


def _promotion(tx: Tx, run_id: str, at: int) -> list[NewEvent]:
    """Sets the promotion time of the run's outputs; returns an event for each."""
    promotion_sql.stamp_outputs(tx, run_id, at)
    # Names of files may hold personal data, and an event never changes: unswept names are left out.
    shown = ("output_id",) if lifecycle_sql.is_unswept(tx, run_id) else ("output_id", "path", "size_bytes")
    return [
        NewEvent("output.promoted", output.step, {name: getattr(output, name) for name in shown})
        for output in promotion_sql.outputs_of(tx, run_id)
    ]


def _closing_segment(tx: Tx, run_id: str, at: int) -> tuple[RunStatus, str | None]:
    """Returns the run's status, and the segment for its last events: the running, the queued or a new segment.

    The segment is None for a run that never began.
    """
    segments = lifecycle_sql.open_segments(tx, run_id)
    for segment in segments:
        if segment.state == SegmentState.RUNNING:
            return RunStatus.RUNNING, segment.segment_id
    if not lifecycle_sql.has_begun(tx, run_id):
        return RunStatus.QUEUED, None
    segment_id = segments[0].segment_id if segments else queue_segment(tx, run_id, at)
    _record_begin(tx, segment_id, lifecycle_sql.start_closing_segment(tx, segment_id, at), at)
    return RunStatus.WAITING, segment_id


def _record_begin(tx: Tx, segment_id: str, begun: lifecycle_sql.BegunSegmentRow, at: int) -> None:
    events = begin_events(begun.ordinal)
    if begun.ordinal > 1 and not lifecycle_sql.is_unswept(tx, begun.run_id):
        for approval in lifecycle_sql.unrecorded_decisions(tx, begun.run_id, segment_id):
            events += settled_events(approval, Statement(approval.comment, approval.form))
    append_events(tx, segment_id, at, events)
