"""The steps that a run begins with, in the transaction in which its first segment begins.

Nothing lies between that and the events of these steps that would have to be recorded first, so a commit with its way
to the writer and back is left out. (`python -m benchmarks`: POST start, a one-step run.)
"""

from collections.abc import Mapping
from typing import Any, Final

from backend.runtime.execution.limits import memory_of
from backend.runtime.execution.slots import StepSlots
from backend.runtime.execution.step_states import StepStates
from backend.workflows.terms import APPROVAL, StepTerms, WorkflowTerms


def has_inputs(terms: WorkflowTerms, parameters: Mapping[str, Any]) -> bool:
    """Returns whether there are objects to copy in before a step begins."""
    return any(declared.parameter in parameters for declared in terms.inputs)


def kind_of_first(terms: WorkflowTerms) -> str | None:
    """Returns the kind of the steps that a run begins with; None where there is none, or they differ."""
    kinds = {step.kind for step in terms.steps if not step.needs}
    return kinds.pop() if len(kinds) == 1 else None


def slot_memory(slots: StepSlots, step: StepTerms) -> int:
    """Returns the memory that a step holds with its slot; 0 where it needs more than there is, and will not run."""
    memory_mb = memory_of(step)
    return memory_mb if memory_mb <= slots.memory_mb else 0


class FirstSteps:
    """Steps that begin a run without a PII policy and inputs to copy; `names` hold slots until they end, or `release`.

    All of them are approvals, which are requested, or agents' steps, of which as many begin as have slots now; where
    kinds are mixed none begins.
    """

    def __init__(self, slots: StepSlots, key_id: str, terms: WorkflowTerms, states: StepStates, at: int) -> None:
        self._slots: Final = slots
        self._key_id: Final = key_id
        self._held_mb: Final[dict[str, int]] = {}
        first = [step for step in terms.steps if not step.needs]
        kind = kind_of_first(terms)
        if kind == APPROVAL:
            states.request_approvals([step.step for step in first], at)
            return
        for step in first[: terms.parallel_steps] if kind else ():
            memory_mb = slot_memory(slots, step)
            if not slots.take_now(key_id, memory_mb):
                return
            self._held_mb[step.step] = memory_mb
            states.begin(step.step, at)

    @property
    def names(self) -> list[str]:
        """The steps that have begun."""
        return list(self._held_mb)

    def release(self) -> None:
        """Releases the slots of steps that do not run after all."""
        while self._held_mb:
            _, memory_mb = self._held_mb.popitem()
            self._slots.release(self._key_id, memory_mb)
