"""The rows that a start leaves. (DECISIONS.md, 4)."""

from dataclasses import dataclass
from typing import Any

from backend import json_text
from backend.ids import new_id
from backend.runs.redaction_manifest import pending_manifest
from backend.runs.start import sql
from backend.runs.start.admission import Inputs
from backend.runs.start.parsed_start import Attempt
from backend.runs.status import QUEUED
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


def new_run(attempt: Attempt, inputs: Inputs) -> NewRun:
    """Makes the rows of a run that is admitted with these inputs."""
    run_id = new_id("run")
    segment = {
        "segment_id": new_id("seg"),
        "run_id": run_id,
        "ordinal": 1,
        "state": "queued",
        "created_at": attempt.at,
        "last_seq": 0,
    }
    return NewRun(_run(run_id, attempt, inputs.terms, inputs), _board(run_id, inputs.terms), segment)


def binding(attempt: Attempt, run_id: str | None, first_used_at: int) -> Row:
    """The idempotency record of an attempt; `run_id` None while it is refused."""
    return {
        "key_id": attempt.key_id,
        "idempotency_key": attempt.idempotency_key,
        "fingerprint": attempt.fingerprint,
        "run_id": run_id,
        "first_used_at": first_used_at,
    }


def _run(run_id: str, attempt: Attempt, terms: WorkflowTerms, inputs: Inputs) -> Row:
    assert isinstance(inputs.policy, dict)
    manifest = pending_manifest(run_id, inputs.policy)
    return dict.fromkeys(sql.RUN_COLUMNS) | {
        "run_id": run_id,
        "key_id": attempt.key_id,
        "workflow_id": attempt.workflow_id,
        "workflow_name": terms.name,
        "version": terms.version,
        "status": QUEUED,
        "triggered_by": attempt.triggered_by,
        "created_at": attempt.at,
        "client_reference": attempt.client_reference,
        "labels": attempt.labels,
        "steps_total": len(terms.steps),
        "steps_completed": 0,
        "steps_failed": 0,
        "steps_skipped": 0,
        "approvals_pending": 0,
        "outputs_count": 0,
        "warnings": "[]",
        "parameters": json_text.write(inputs.parameters),
        "input_text": attempt.input_text,
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
