"""Claims a segment for execution, and loads what its execution needs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from backend import json_text
from backend.deployment import sql as deployment_sql
from backend.run_status import RunStatus
from backend.runs import lifecycle, lifecycle_sql, redaction_manifest
from backend.runs.change_log import log_change
from backend.runs.parking import begin_parked
from backend.runtime.execution import sql
from backend.runtime.execution.begun_steps import BegunSteps
from backend.runtime.execution.first_approvals import has_inputs, request_first_approvals
from backend.runtime.execution.segment_context import SegmentContext
from backend.runtime.execution.step_states import StepStates
from backend.runtime.execution.unit_of_work import UnitOfWork
from backend.runtime.outcomes import LICENSE_UNAVAILABLE
from backend.runtime.redaction.run_redaction import RunRedaction
from backend.segment_state import SegmentState
from backend.storage.database import Tx, run_of
from backend.storage.tables.segments import ApprovalRow, StepRow
from backend.uploads import sql as uploads_sql
from backend.workflows.terms import WorkflowTerms
from backend.workflows.terms_cache import load_terms


@dataclass(frozen=True, slots=True)
class ClaimedSegment:
    """A segment that this process has claimed; `first` where it is its run's first.

    `redaction` is None where the run's PII policy is off. `decisions` are the decided approvals that it continues from
    and that no event records yet. `begun` are steps that began with the claim, and hold their slots. `upload_id` names
    the files that a person uploaded for the run. `inputs_manifest` is JSON, of the first segment that copied inputs.
    """

    run_id: str
    workflow_id: str
    key_id: str
    first: bool
    parameters: dict[str, Any]
    input_text: str | None
    terms: WorkflowTerms
    step_states: StepStates
    redaction: RunRedaction | None
    decisions: list[ApprovalRow]
    begun: Sequence[str] = ()
    upload_id: str | None = None
    inputs_manifest: str | None = None


class _QueuedSegment(NamedTuple):
    """What is read before the claim, and does not change until then; `steps` are None for a later segment."""

    run: sql.ExecutedRunRow
    terms: WorkflowTerms
    steps: list[StepRow] | None
    upload_id: str | None


async def claim_segment(context: SegmentContext, segment_id: str) -> ClaimedSegment | None:
    """Claims a queued segment; returns None where there is nothing left to do for it here.

    That is where another process has claimed it, or its run is over, so handing a segment over twice is harmless; and
    where a first segment only asked for approvals, so that its run was parked with the claim. The first segment of a
    run fails it where the licence is on hold.
    """
    found = await context.read(lambda tx: _find(context, tx, segment_id))
    if found is None:
        return None
    run, terms, first_steps, upload_id = found
    run_id, first = run.run_id, first_steps is not None
    at = context.clock()
    parameters = json_text.parse(run.parameters or "{}")
    redaction = _redaction(context, run)
    states = None if first_steps is None else StepStates(terms.steps, run_id, segment_id, first_steps)
    asked, begun = None, None
    if states is not None and redaction is None and upload_id is None and not has_inputs(terms, parameters):
        asked = request_first_approvals(states, at)
        if asked is None:
            begun = BegunSteps(context.slots, run.key_id, states)
            begun.begin(terms.parallel_steps, at)
    changes = UnitOfWork() if states is None else states.take_changes()

    def log_taken(tx: Tx, after: RunStatus) -> None:
        before = RunStatus.QUEUED if first else RunStatus.WAITING
        key_id, workflow_id = run.key_id, run.workflow_id
        log_change(tx, run_id, before, after, key_id=key_id, workflow_id=workflow_id, segment_id=segment_id)

    def take(tx: Tx) -> ClaimedSegment | None:
        licensed = not first or deployment_sql.get(tx).licence_state == "active"
        if licensed and asked is not None:
            if begin_parked(tx, run_id, segment_id, context.owner, at, asked.events, len(asked.approvals)):
                asked.write_rows(tx, run_id)
                log_taken(tx, RunStatus.WAITING)
            return None
        if not lifecycle.begin_segment(tx, segment_id, context.owner, at, changes.events if licensed else ()):
            return None
        log_taken(tx, RunStatus.RUNNING)
        if not licensed:
            LICENSE_UNAVAILABLE.close(tx, run_id, at)
            return None
        changes.write_rows(tx, run_id)
        return ClaimedSegment(
            run_id=run_id,
            workflow_id=run.workflow_id,
            key_id=run.key_id,
            first=first,
            parameters=parameters,
            input_text=run.input_text,
            terms=terms,
            step_states=states or StepStates(terms.steps, run_id, segment_id, sql.steps_of(tx, run_id)),
            redaction=redaction,
            decisions=[] if first else lifecycle_sql.unrecorded_decisions(tx, run_id, segment_id),
            begun=() if begun is None else begun.names,
            upload_id=upload_id,
            inputs_manifest=run.inputs_manifest,
        )

    claimed = None
    try:
        claimed = await context.write(take, lock_key=run_of(run_id))
    finally:
        if claimed is None and begun is not None:
            begun.release()
    return claimed


def _find(context: SegmentContext, tx: Tx, segment_id: str) -> _QueuedSegment | None:
    run = sql.find_run_of_segment(tx, segment_id)
    if run is None or run.state != SegmentState.QUEUED:
        return None
    terms = load_terms(context.cache, tx, context.capabilities, run.workflow_id, run.version)
    if terms is None:
        return None
    # Only people upload files.
    upload_id = None if run.key_id else uploads_sql.of_run(tx, run.run_id)
    return _QueuedSegment(run, terms, sql.steps_of(tx, run.run_id) if run.ordinal == 1 else None, upload_id)


def _redaction(context: SegmentContext, run: sql.ExecutedRunRow) -> RunRedaction | None:
    policy = json_text.parse(run.pii_policy)
    if policy["mode"] == "off":
        return None
    assert run.pii_redaction is not None
    return RunRedaction(context.redactor, policy, redaction_manifest.model_calls(run.pii_redaction), run.key_id)
