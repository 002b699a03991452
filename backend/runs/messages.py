"""Rows of runs and their parts as protobuf messages; a row has its table's columns as attributes."""

from typing import Final

import orjson
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from backend.clock import to_duration, to_timestamp
from backend.run_status import RunStatus
from backend.runs.approvals_sql import PendingApprovalRow
from backend.runs.list_sql import RunSummaryRow
from backend.runs.status_names import STATUS_NUMBERS
from backend.storage.tables.runs import RunRow
from backend.storage.tables.segments import ApprovalRow, EventRow, SegmentRow, StepRow
from backend.workflows.messages import stored_policy_message
from workflow_api.v1 import runs_pb2

_TRIGGER: Final = {name.removeprefix("TRIGGERED_BY_").lower(): number for name, number in runs_pb2.TriggeredBy.items()}
_TRIGGER_NAMES: Final = {number: name for name, number in _TRIGGER.items()}
_STEP_KIND: Final = {name.removeprefix("STEP_KIND_").lower(): number for name, number in runs_pb2.StepKind.items()}
_STEP_STATUS: Final = {
    name.removeprefix("STEP_STATUS_").lower(): number for name, number in runs_pb2.StepStatus.items()
}


def run_status(status: str) -> runs_pb2.RunStatus.ValueType:
    """The enum value of a status in the tables."""
    return STATUS_NUMBERS[status]


def trigger_name(trigger: runs_pb2.TriggeredBy.ValueType) -> str:
    """How the tables name what started a run."""
    return _TRIGGER_NAMES[trigger]


def summary(row: RunRow | RunSummaryRow) -> runs_pb2.RunSummary:
    """A run in short; the edge makes the links."""
    message = runs_pb2.RunSummary(
        run_id=row.run_id,
        workflow_id=row.workflow_id,
        workflow_name=row.workflow_name,
        version=row.version,
        status=STATUS_NUMBERS[row.status],
        created_at=to_timestamp(row.created_at),
        started_at=_time(row.started_at),
        finished_at=_time(row.finished_at),
        duration=_duration(row),
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
    if row.labels != "{}":
        message.labels.update(orjson.loads(row.labels))
    if row.warnings != "[]":
        message.warnings.extend(orjson.loads(row.warnings))
        message.completed_with_warnings = row.status == RunStatus.COMPLETED
    return message


def detail(row: RunRow) -> runs_pb2.Run:
    """A run in full. Nothing that holds content of unswept outputs leaves while the final sweep is pending."""
    message = runs_pb2.Run(
        summary=summary(row),
        parameters=row.parameters,
        input_text=row.input_text,
        inputs_manifest=row.inputs_manifest,
        max_run_hours=row.max_run_hours,
        triggered_by=_TRIGGER[row.triggered_by],
        key_id=row.key_id or None,
        result_schema_version=row.result_schema_version,
        data_purged_at=_time(row.data_purged_at),
        pii_redaction=row.pii_redaction,
        pii_policy=stored_policy_message(row.pii_policy),
    )
    swept = row.redaction_state != "pending"
    if row.status == RunStatus.FAILED:
        message.error.CopyFrom(_error(row.error_code or "", row.error_message))
    if row.result_error_code is not None:
        message.result_error.CopyFrom(_error(row.result_error_code, row.result_error_message if swept else None))
    if swept:
        _add_result(message, row)
    return message


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
    """A step of the board."""
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
        started_at=_time(row.started_at),
        finished_at=_time(row.finished_at),
        duration=_duration(row),
    )
    if row.error_code is not None:
        message.error.CopyFrom(_error(row.error_code, row.error_message))
    return message


def approval(row: ApprovalRow | PendingApprovalRow) -> runs_pb2.Approval:
    """A node parked on a human gate."""
    return runs_pb2.Approval(
        approval_id=row.approval_id,
        step=row.step,
        title=row.title,
        instructions=row.instructions,
        segment_id=row.segment_id,
        requested_at=to_timestamp(row.requested_at),
    )


def event(row: EventRow) -> runs_pb2.Event:
    """A durable event."""
    return runs_pb2.Event(seq=row.seq, type=row.type, at=to_timestamp(row.at), step=row.step, data=row.data)


def segment(row: SegmentRow) -> runs_pb2.Segment:
    """A runtime segment that has begun."""
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


def _duration(row: RunRow | RunSummaryRow | StepRow) -> Duration | None:
    if row.started_at is None or row.finished_at is None:
        return None
    return to_duration(row.finished_at - row.started_at)
