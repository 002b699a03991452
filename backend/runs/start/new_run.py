"""The rows that a start leaves. (DECISIONS.md, 4)."""

from dataclasses import dataclass
from typing import Any

from backend import json_text
from backend.ids import new_id
from backend.run_status import QUEUED
from backend.runs.redaction_manifest import pending_manifest
from backend.runs.start import sql
from backend.runs.start.admission import Inputs
from backend.runs.start.parsed_start import ParsedStart
from backend.workflows.terms import WorkflowTerms

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run that no check refused: its row, its board, and its first segment."""

    run: Row
    board: list[Row]
    segment: Row

    @property
    def run_id(self) -> str:
        """Names it."""
        return str(self.run["run_id"])


def new_run(parsed_start: ParsedStart, inputs: Inputs) -> NewRun:
    """Makes the rows of a run that is admitted with these inputs."""
    run_id = new_id("run")
    segment = {
        "segment_id": new_id("seg"),
        "run_id": run_id,
        "ordinal": 1,
        "state": "queued",
        "created_at": parsed_start.at,
        "last_seq": 0,
    }
    return NewRun(_run(run_id, parsed_start, inputs.terms, inputs), _board(run_id, inputs.terms), segment)


def binding(parsed_start: ParsedStart, run_id: str | None, first_used_at: int) -> Row:
    """The idempotency record of an attempt; `run_id` None while it is refused."""
    return {
        "key_id": parsed_start.key_id,
        "idempotency_key": parsed_start.idempotency_key,
        "fingerprint": parsed_start.fingerprint,
        "run_id": run_id,
        "first_used_at": first_used_at,
    }


def _run(run_id: str, parsed_start: ParsedStart, terms: WorkflowTerms, inputs: Inputs) -> Row:
    assert isinstance(inputs.policy, dict)
    manifest = pending_manifest(run_id, inputs.policy)
    return dict.fromkeys(sql.RUN_COLUMNS) | {
        "run_id": run_id,
        "key_id": parsed_start.key_id,
        "workflow_id": parsed_start.workflow_id,
        "workflow_name": terms.name,
        "version": terms.version,
        "status": QUEUED,
        "triggered_by": parsed_start.triggered_by,
        "created_at": parsed_start.at,
        "client_reference": parsed_start.client_reference,
        "labels": parsed_start.labels,
        "steps_total": len(terms.steps),
        "steps_completed": 0,
        "steps_failed": 0,
        "steps_skipped": 0,
        "approvals_pending": 0,
        "outputs_count": 0,
        "warnings": "[]",
        "parameters": json_text.write(inputs.parameters),
        "input_text": parsed_start.input_text,
        "max_run_hours": terms.max_run_hours,
        "result_schema_version": terms.result_schema_version,
        "pii_policy": json_text.write(inputs.policy),
        "pii_redaction": manifest,
        # With a policy, outputs stay closed from the beginning until the final sweep has passed them.
        "redaction_state": "none" if manifest is None else "pending",
    }


def _board(run_id: str, terms: WorkflowTerms) -> list[Row]:
    return [
        {
            "run_id": run_id,
            "position": position,
            "step": step.step,
            "name": step.name,
            "kind": step.kind,
            "status": "pending",
            "needs": json_text.write(step.needs),
            "agent_id": step.agent_id,
            "segment_id": None,
            "attempt": 0,
            "optional": int(step.optional),
            "started_at": None,
            "finished_at": None,
            "error_code": None,
            "error_message": None,
            "value": None,
        }
        for position, step in enumerate(terms.steps)
    ]
