"""Converts rows of runs, steps, approvals, events and segments to protobuf messages."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Final

import orjson
from google.protobuf.timestamp_pb2 import Timestamp

from backend.common import json_text
from backend.common.states import DeadlineAction, RunStatus, StepStatus
from backend.services.runs.approvals_sql import PendingApprovalRow
from backend.services.runs.approvers import Decider, read_approvers
from backend.services.runs.list_sql import ChildRunRow, RunSummaryRow
from backend.services.runs.rules import STATUS_NUMBERS
from backend.services.workflows.messages import hours_message, stored_policy_message
from backend.storage.tables.runs import RunRow
from backend.storage.tables.segments import ApprovalRow, EventRow, SegmentRow, StepRow
from contract.times import set_milliseconds, to_timestamp
from contract.versions import API_VERSION, RELEASE
from workflow_api.v1 import runs_pb2

DECIDED_EVENT: Final = "approval.decided"

_TRIGGER: Final = {name.removeprefix("TRIGGERED_BY_").lower(): number for name, number in runs_pb2.TriggeredBy.items()}
_TRIGGER_NAMES: Final = {number: name for name, number in _TRIGGER.items()}
_STEP_KIND: Final = {name.removeprefix("STEP_KIND_").lower(): number for name, number in runs_pb2.StepKind.items()}
_STEP_STATUS: Final = {
    name.removeprefix("STEP_STATUS_").lower(): number for name, number in runs_pb2.StepStatus.items()
}
_DEADLINE_ACTIONS: Final[Mapping[str | None, runs_pb2.DeadlineAction.ValueType]] = {
    None: runs_pb2.DEADLINE_ACTION_UNSPECIFIED,
    DeadlineAction.REJECT: runs_pb2.DEADLINE_ACTION_REJECT,
    DeadlineAction.FAIL: runs_pb2.DEADLINE_ACTION_FAIL,
}

# Copied for each tag, so that the key is hashed once. Each release has other tags, as it may show rows differently.
_KEYED: Final = blake2b(digest_size=16, key=f"{API_VERSION} {RELEASE}".encode())


def run_status(status: str) -> runs_pb2.RunStatus.ValueType:
    """Returns the enum value of a stored run status."""
    return STATUS_NUMBERS[status]


def trigger_name(trigger: runs_pb2.TriggeredBy.ValueType) -> str:
    """Returns the stored name of a trigger."""
    return _TRIGGER_NAMES[trigger]


def summary(row: RunRow | RunSummaryRow | ChildRunRow) -> runs_pb2.RunSummary:
    """Returns the summary of a run; the edge adds the links."""
    message = runs_pb2.RunSummary(
        run_id=row.run_id,
        workflow_id=row.workflow_id,
        workflow_name=row.workflow_name,
        version=row.version,
        status=STATUS_NUMBERS[row.status],
        client_reference=row.client_reference,
        counts=runs_pb2.RunCounts(
            steps_total=row.steps_total,
            steps_completed=row.steps_completed,
            steps_failed=row.steps_failed,
            steps_skipped=row.steps_skipped,
            approvals_pending=row.approvals_pending,
            outputs=row.outputs_count,
        ),
    )
    set_milliseconds(message.created_at, row.created_at)
    _set_times(message, row)
    if row.labels != "{}":
        labels = message.labels
        # One by one, because `update` of a protobuf map is implemented in Python and slower.
        for name, value in orjson.loads(row.labels).items():
            labels[name] = value
    if row.warnings != "[]":
        message.warnings.extend(orjson.loads(row.warnings))
        message.completed_with_warnings = row.status == RunStatus.COMPLETED
    return message


def detail(row: RunRow) -> runs_pb2.Run:
    """Returns a run in full, with its entity tag; content of outputs is left out until their final sweep."""
    message = runs_pb2.Run(
        summary=summary(row),
        parameters=row.parameters,
        input_text=row.input_text,
        inputs_manifest=row.inputs_manifest,
        max_run_time=hours_message(row.max_run_hours),
        triggered_by=_TRIGGER[row.triggered_by],
        key_id=row.key_id or None,
        result_schema_version=row.result_schema_version,
        pii_redaction=row.pii_redaction,
        etag=entity_tag(row),
        resumed_from=row.resumed_from,
        resumed_by=row.resumed_by,
        parent_run_id=row.parent_run_id,
        usage=runs_pb2.RunUsage(
            model_calls=row.model_calls, input_tokens=row.input_tokens, output_tokens=row.output_tokens
        ),
    )
    message.pii_policy.CopyFrom(stored_policy_message(row.pii_policy))
    if row.data_purged_at is not None:
        set_milliseconds(message.data_purged_at, row.data_purged_at)
    swept = row.redaction_state != "pending"
    if row.status == RunStatus.FAILED:
        message.error.CopyFrom(_error(row.error_code or "", row.error_message))
    if row.result_error_code is not None:
        message.result_error.CopyFrom(_error(row.result_error_code, row.result_error_message if swept else None))
    if swept:
        _add_result(message, row)
    return message


def entity_tag(row: Sequence[object]) -> str:
    """Returns the strong entity tag of a row, without quotes: a digest of its values and the release."""
    digest = _KEYED.copy()
    digest.update(orjson.dumps(tuple(row)))
    return digest.hexdigest()


def _add_result(message: runs_pb2.Run, row: RunRow) -> None:
    if row.summary_markdown is not None:
        message.summary_markdown = row.summary_markdown
    if row.result is not None:
        message.result = row.result
    if row.result_output_id is not None:
        message.result_json.size_bytes = row.result_size_bytes or 0
        message.result_json.sha256 = row.result_sha256 or ""
        message.result_json.output_id = row.result_output_id


def step(row: StepRow) -> runs_pb2.Step:
    """Returns a step with its state."""
    message = runs_pb2.Step(
        step=row.step,
        name=row.name,
        kind=_STEP_KIND[row.kind],
        status=_STEP_STATUS[row.status],
        needs=orjson.loads(row.needs),
        agent_id=row.agent_id,
        segment_id=row.segment_id,
        attempt=row.attempt,
        optional=bool(row.optional),
        # A step that is not completed may still be executed instead of reused.
        reused_from=row.reused_from if row.status == StepStatus.COMPLETED else None,
    )
    _set_times(message, row)
    if row.items_total is not None:
        message.items.total = row.items_total
        message.items.completed = row.items_completed or 0
        message.items.failed = row.items_failed or 0
    if row.error_code is not None:
        message.error.CopyFrom(_error(row.error_code, row.error_message))
    return message


def approval(row: ApprovalRow | PendingApprovalRow) -> runs_pb2.Approval:
    """Returns a pending approval."""
    return runs_pb2.Approval(
        approval_id=row.approval_id,
        step=row.step,
        title=row.title,
        instructions=row.instructions,
        segment_id=row.segment_id,
        requested_at=to_timestamp(row.requested_at),
    )


def pending_approval(row: PendingApprovalRow, at: int, decider: Decider) -> runs_pb2.PendingApproval:
    """Returns a pending approval with its run, for a person who decides approvals; `at` is the present time."""
    approvers = read_approvers(row.approvers)
    message = runs_pb2.PendingApproval(
        approval=approval(row),
        run_id=row.run_id,
        workflow_name=row.workflow_name,
        workflow_id=row.workflow_id,
        version=row.version,
        client_reference=row.client_reference,
        labels=orjson.loads(row.labels),
        triggered_by=_TRIGGER[row.triggered_by],
        key_id=row.key_id or None,
        key_name=row.key_name,
        started_by=row.started_by,
        on_deadline=_DEADLINE_ACTIONS[row.on_deadline],
        approvers=None if approvers is None else runs_pb2.Approvers(**approvers._asdict()),
        form_schema=row.form_schema,
        summary=row.summary,
        excluded=not decider.may_decide(approvers),
        assigned_to=row.assigned_to,
    )
    if row.tool_call is not None:
        call = json_text.parse(row.tool_call)
        message.tool_call.tool, message.tool_call.arguments = call["tool"], json_text.write(call["arguments"])
    set_milliseconds(message.waiting, max(0, at - row.requested_at))
    if row.deadline_at is not None:
        set_milliseconds(message.deadline_at, row.deadline_at)
    if row.reminded_at is not None:
        set_milliseconds(message.reminded_at, row.reminded_at)
    if row.snoozed_until is not None:
        set_milliseconds(message.snoozed_until, row.snoozed_until)
    return message


def event(row: EventRow) -> runs_pb2.Event:
    """Returns an event."""
    message = runs_pb2.Event(seq=row.seq, type=row.type, step=row.step, data=row.data)
    set_milliseconds(message.at, row.at)
    return message


def event_for_people(row: EventRow, deciders: Mapping[str, str]) -> runs_pb2.Event:
    """Returns an event for people; adds to a decision the person who made it, which the stored data leave out."""
    message = event(row)
    if row.type == DECIDED_EVENT:
        data = orjson.loads(row.data)
        message.data = json_text.write({**data, "decided_by": deciders.get(data["approval_id"])})
    return message


def segment(row: SegmentRow) -> runs_pb2.Segment:
    """Returns a segment that has begun."""
    return runs_pb2.Segment(
        segment_id=row.segment_id,
        ordinal=row.ordinal,
        started_at=_time(row.started_at),
        ended_at=_time(row.ended_at),
        last_seq=row.last_seq,
    )


def _error(code: str, message: str | None) -> runs_pb2.RunError:
    return runs_pb2.RunError(code=code, message=message)


def _time(milliseconds: int | None) -> Timestamp | None:
    return None if milliseconds is None else to_timestamp(milliseconds)


def _set_times(
    message: runs_pb2.RunSummary | runs_pb2.Step, row: RunRow | RunSummaryRow | ChildRunRow | StepRow
) -> None:
    if row.started_at is not None:
        set_milliseconds(message.started_at, row.started_at)
    if row.finished_at is not None:
        set_milliseconds(message.finished_at, row.finished_at)
        if row.started_at is not None:
            # A clock may have been set back meanwhile.
            set_milliseconds(message.duration, max(0, row.finished_at - row.started_at))
