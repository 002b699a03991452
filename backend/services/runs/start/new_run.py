"""Makes the rows of a new run, and its idempotency record, from a validated start (contract 12.30)."""

from typing import Final, NamedTuple

import orjson

from backend.common import json_text
from backend.common.ids import new_id
from backend.common.json_text import JsonObject
from backend.common.states import RunStatus, SegmentState, StepStatus
from backend.services.runs.redaction_manifest import pending_manifest
from backend.services.runs.start.rules import NO_RESUMPTION, ParsedStart, ValidatedInputs
from backend.services.workflows.resolved_workflow import Phase, ResolvedWorkflow
from backend.storage.tables.runs import RunRow
from backend.storage.tables.segments import SegmentRow, StepRow

Row = JsonObject

# Plain texts, because SQLite's driver searches an adapter for each enum member.
_QUEUED: Final = RunStatus.QUEUED.value
_QUEUED_SEGMENT: Final = SegmentState.QUEUED.value
_PENDING: Final = StepStatus.PENDING.value

_COUNTERS: Final = ("steps_completed", "steps_failed", "steps_skipped", "approvals_pending", "outputs_count")
_NEW_RUN: Final[Row] = {
    **dict.fromkeys(RunRow._fields),
    **dict.fromkeys(_COUNTERS, 0),
    "status": _QUEUED,
    "warnings": "[]",
    "depth": 0,
    "model_calls": 0,
    "input_tokens": 0,
    "output_tokens": 0,
}


class NewRun(NamedTuple):
    """The rows of an admitted run: of the run, its steps, and its first segment."""

    run: RunRow
    steps: list[StepRow]
    segment: SegmentRow


def new_run(start: ParsedStart, inputs: ValidatedInputs, run_id: str | None = None) -> NewRun:
    """Returns the rows of an admitted run, with a new id unless `run_id` is given."""
    run_id = run_id or new_id("run")
    segment = SegmentRow(
        segment_id=new_id("seg"),
        run_id=run_id,
        ordinal=1,
        state=_QUEUED_SEGMENT,
        owner=None,
        created_at=start.at,
        handed_over_at=None,
        started_at=None,
        ended_at=None,
        last_seq=0,
    )
    return NewRun(_run(run_id, start, inputs), _steps(run_id, start, inputs.workflow), segment)


def idempotency_record(start: ParsedStart, run_id: str | None, first_used_at: int) -> Row:
    """Returns the idempotency record of a start; `run_id` is None if the start was refused."""
    return {
        "key_id": start.key_id,
        "idempotency_key": start.idempotency_key,
        "fingerprint": start.fingerprint,
        "run_id": run_id,
        "first_used_at": first_used_at,
    }


def _run(run_id: str, start: ParsedStart, inputs: ValidatedInputs) -> RunRow:
    assert isinstance(inputs.policy, dict)
    workflow = inputs.workflow
    assert workflow.version is not None
    manifest = None if inputs.policy["mode"] == "off" else pending_manifest(run_id, inputs.policy)
    return RunRow(
        **_NEW_RUN
        | {
            "run_id": run_id,
            "key_id": start.key_id,
            "workflow_id": start.workflow_id,
            "workflow_name": workflow.name,
            "version": workflow.version,
            "triggered_by": start.triggered_by,
            "created_at": start.at,
            "client_reference": start.client_reference,
            "labels": start.labels,
            "steps_total": len(workflow.steps),
            "parameters": json_text.write(inputs.parameters),
            "input_text": start.input_text,
            "resumed_from": None if start.resumption is None else start.resumption.run_id,
            "max_run_hours": workflow.max_run_hours,
            "result_schema_version": workflow.result_schema_version,
            "pii_policy": orjson.dumps(inputs.policy).decode(),
            "pii_redaction": manifest,
            # With a policy, outputs cannot be read until their final sweep.
            "redaction_state": "none" if manifest is None else "pending",
        }
        | ({} if start.parent is None else start.parent._asdict())
    )


def _steps(run_id: str, start: ParsedStart, workflow: ResolvedWorkflow) -> list[StepRow]:
    resumption = start.resumption or NO_RESUMPTION
    return [
        StepRow(
            run_id=run_id,
            position=position,
            step=step.step,
            name=step.name,
            kind=step.kind,
            status=_PENDING,
            needs=json_text.write(step.needs) if step.needs else "[]",
            agent_id=step.agent_id,
            segment_id=None,
            attempt=0,
            optional=int(step.optional),
            started_at=None,
            finished_at=None,
            error_code=None,
            error_message=None,
            value=None,
            files_count=None,
            reused_from=resumption.run_id if step.step in resumption.reused else None,
            phase=None if step.phase is Phase.MAIN else step.phase.value,
            items_total=None,
            items_completed=None,
            items_failed=None,
            items_from=resumption.run_id if step.step in resumption.items_reused else None,
            pauses=None,
        )
        for position, step in enumerate(workflow.steps)
    ]
