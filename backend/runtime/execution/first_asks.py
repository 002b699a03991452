"""What a new run asks for, where it waits for approvals before anything else."""

from collections.abc import Mapping
from typing import Any

from backend.runtime.execution.step_states import StepStates
from backend.runtime.execution.unit_of_work import UnitOfWork
from backend.workflows.terms import APPROVAL, WorkflowTerms


def has_inputs(terms: WorkflowTerms, parameters: Mapping[str, Any]) -> bool:
    """Returns whether there are objects to copy in before a step begins."""
    return any(declared.parameter in parameters for declared in terms.inputs)


def asked_first(states: StepStates, at: int) -> UnitOfWork | None:
    """Requests the approvals of a new run without a PII policy and without inputs to copy.

    Returns these changes; None, with nothing changed, where it does something else.
    """
    # No step has a status yet that would skip or block another.
    first = [step for step in states.all_terms if not step.needs]
    if any(step.kind != APPROVAL for step in first):
        return None
    states.request_approvals([step.step for step in first], at)
    return states.take_changes()
