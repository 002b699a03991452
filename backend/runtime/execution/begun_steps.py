"""Begins the first steps of a run in the transaction that takes its first segment, where they have slots at once.

Nothing lies between the take and `step.started` of a run without inputs to copy and without a PII policy, so a commit
with its way to the writer and back is left out: a quarter of the commits of a one-step run. (`python -m benchmarks`: a
one-step run.)
"""

from typing import Final

from backend.runtime.execution.limits import memory_of
from backend.runtime.execution.slots import StepSlots
from backend.runtime.execution.step_states import StepStates
from backend.workflows.terms import StepTerms


def slot_memory(slots: StepSlots, step: StepTerms) -> int:
    """Returns the memory that a step holds with its slot; 0 where it needs more than there is, and will not run."""
    memory_mb = memory_of(step)
    return memory_mb if memory_mb <= slots.memory_mb else 0


class BegunSteps:
    """Steps that have begun in their states, and hold slots of a key until they end, or `release`."""

    def __init__(self, slots: StepSlots, key_id: str, states: StepStates) -> None:
        self._slots: Final = slots
        self._key_id: Final = key_id
        self._states: Final = states
        self.names: Final[list[str]] = []

    def begin(self, parallel: int, at: int) -> None:
        """Begins as many steps as have slots now, up to so many, where nothing else comes first."""
        plan = self._states.plan()
        if plan.ask or plan.skip or plan.block:
            return
        for step in plan.begin[:parallel]:
            slot = self._slots.request(self._key_id, self._memory(step))
            if not slot.done():
                slot.cancel()
                return
            self._states.begin(step, at)
            self.names.append(step)

    def release(self) -> None:
        """Releases the slots of steps that do not run after all."""
        for step in self.names:
            self._slots.release(self._key_id, self._memory(step))

    def _memory(self, step: str) -> int:
        return slot_memory(self._slots, self._states.terms(step))
