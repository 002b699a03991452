"""The approvals that a new run requests, where it waits for approvals before anything else."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from backend.runs.new_events import NewEvent
from backend.runs.parking import ApprovalRequests
from backend.runtime.execution.step_states import StepStates, approval_request
from backend.runtime.execution.unit_of_work import Row, UnitOfWork
from backend.step_status import StepStatus
from backend.storage.tables.segments import StepRow
from backend.workflows.terms import APPROVAL, StepTerms, WorkflowTerms

_WAITING = StepStatus.WAITING.value


def has_inputs(terms: WorkflowTerms, parameters: Mapping[str, Any]) -> bool:
    """Returns whether there are objects to copy in before a step begins."""
    return any(declared.parameter in parameters for declared in terms.inputs)


def request_first_approvals(states: StepStates, at: int) -> UnitOfWork | None:
    """Requests the approvals of a new run without a PII policy and without inputs to copy.

    Returns these changes; None, with nothing changed, where it does something else.
    """
    first = _first(states.all_terms)
    if first is None:
        return None
    states.request_approvals([step.step for step in first], at)
    return states.take_changes()


def first_approval_requests(
    terms: WorkflowTerms, segment_id: str, steps: Sequence[StepRow], owner: str, at: int
) -> ApprovalRequests | None:
    """Returns what `request_first_approvals` requests, for a run whose rows are not written yet."""
    first = _first(terms.steps)
    if first is None:
        return None
    rows = {step.step: step for step in steps}
    events: list[NewEvent] = []
    approvals: list[Row] = []
    for step in first:
        row = rows[step.step]
        rows[step.step] = row._replace(status=_WAITING, segment_id=segment_id, attempt=row.attempt + 1, started_at=at)
        approval, event = approval_request(step, row.run_id, segment_id, at)
        approvals.append(approval)
        events.append(event)
    return ApprovalRequests(owner, events, rows, approvals)


def _first(steps: Iterable[StepTerms]) -> list[StepTerms] | None:
    """Returns the steps that begin; None where one of them is no approval."""
    # No step has a status yet that would skip or block another.
    first = [step for step in steps if not step.needs]
    return None if any(step.kind != APPROVAL for step in first) else first
