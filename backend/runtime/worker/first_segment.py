"""Begins the first segments of new runs in the transactions of their starts."""

from collections.abc import Sequence

from backend import json_text
from backend.runs.runtime_port import BegunSegment
from backend.runtime.execution.claim import ClaimedSegment
from backend.runtime.execution.first_steps import FirstSteps
from backend.runtime.execution.step_states import StepStates
from backend.runtime.worker.session import WorkerSession
from backend.storage.tables.runs import RunRow
from backend.storage.tables.segments import StepRow
from backend.workflows.terms import WorkflowTerms


def begin_first_segment(
    session: WorkerSession,
    run: RunRow,
    segment_id: str,
    steps: Sequence[StepRow],
    terms: WorkflowTerms,
    at: int,
) -> BegunSegment | None:
    """Begins a run's first segment; None where the engine takes no more. See `Runtime.begin_run`.

    Steps that have no slot now wait for one as those of any segment.
    """
    engine, states = session.engine, StepStates(terms.steps, run.run_id, segment_id, steps)
    first = FirstSteps(session.slots, run.key_id, terms, states, at)
    changes = states.take_changes()
    if not changes.approvals and not engine.reserve(segment_id):
        engine.call_soon(first.release)
        return None

    def settle(holds: bool) -> None:
        if changes.approvals:
            return
        if not holds:
            engine.release(segment_id)
            engine.call_soon(first.release)
            return
        claimed = ClaimedSegment(
            run_id=run.run_id,
            workflow_id=run.workflow_id,
            key_id=run.key_id,
            first=True,
            parameters=json_text.parse(run.parameters or "{}"),
            input_text=run.input_text,
            terms=terms,
            step_states=states,
            redaction=None,
            decisions=[],
            begun=first.names,
        )
        engine.confirm(segment_id, claimed)

    return BegunSegment(engine.owner, changes.events, changes.steps, changes.approvals, settle)
