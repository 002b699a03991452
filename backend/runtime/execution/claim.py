"""Claims a segment for execution, and loads what its execution needs."""

from dataclasses import dataclass
from typing import Any

from backend import json_text
from backend.deployment import sql as deployment_sql
from backend.runs import lifecycle, lifecycle_sql, redaction_manifest
from backend.runtime.execution import sql
from backend.runtime.execution.segment_context import SegmentContext
from backend.runtime.execution.step_states import StepStates
from backend.runtime.outcomes import LICENSE_UNAVAILABLE
from backend.runtime.redaction.run_redaction import RunRedaction
from backend.storage.database import Tx, run_of
from backend.storage.tables.segments import ApprovalRow
from backend.workflows.terms import WorkflowTerms
from backend.workflows.terms_cache import load_terms


@dataclass(frozen=True, slots=True)
class ClaimedSegment:
    """A segment that this process has claimed; `first` where it is its run's first.

    `redaction` is None where the run's PII policy is off. `decisions` are the decided approvals that it continues from
    and that no event records yet.
    """

    run_id: str
    key_id: str
    first: bool
    parameters: dict[str, Any]
    input_text: str | None
    terms: WorkflowTerms
    step_states: StepStates
    redaction: RunRedaction | None
    decisions: list[ApprovalRow]


def claim_segment(context: SegmentContext, segment_id: str) -> ClaimedSegment | None:
    """Claims a queued segment; returns None where another process has claimed it, or its run is over.

    So handing a segment over twice is harmless. The first segment of a run fails it where the licence is on hold.
    """

    def read(tx: Tx) -> tuple[str, WorkflowTerms] | None:
        run = sql.find_run_of_segment(tx, segment_id)
        terms = (
            None if run is None else load_terms(context.cache, tx, context.capabilities, run.workflow_id, run.version)
        )
        return None if run is None or terms is None else (run.run_id, terms)

    found = context.database.snapshot(read)
    if found is None:
        return None
    run_id, terms = found
    at = context.clock()

    def take(tx: Tx) -> ClaimedSegment | None:
        if not lifecycle.begin_segment(tx, segment_id, context.owner, at):
            return None
        run = sql.run_of_segment(tx, segment_id)
        if run.ordinal == 1 and deployment_sql.get(tx).licence_state != "active":
            LICENSE_UNAVAILABLE.close(tx, run.run_id, at)
            return None
        return ClaimedSegment(
            run_id=run.run_id,
            key_id=run.key_id,
            first=run.ordinal == 1,
            parameters=json_text.parse(run.parameters or "{}"),
            input_text=run.input_text,
            terms=terms,
            step_states=StepStates(terms.steps, run.run_id, segment_id, sql.steps_of(tx, run.run_id)),
            redaction=_redaction(context, run),
            decisions=[] if run.ordinal == 1 else lifecycle_sql.unrecorded_decisions(tx, run.run_id, segment_id),
        )

    return context.database.write(take, lock_key=run_of(run_id))


def _redaction(context: SegmentContext, run: sql.ExecutedRunRow) -> RunRedaction | None:
    policy = json_text.parse(run.pii_policy)
    if policy["mode"] == "off":
        return None
    assert run.pii_redaction is not None
    return RunRedaction(context.redactor, policy, redaction_manifest.model_calls(run.pii_redaction), run.key_id)
