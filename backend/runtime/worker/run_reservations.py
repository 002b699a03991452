"""Reserves step slots of this process for new runs, so that their first steps begin with their start."""

from collections.abc import Mapping, Sequence
from typing import Final

from backend import json_text
from backend.runs.run_reservation import BegunRun
from backend.runtime.engines.local import LocalEngine
from backend.runtime.execution.begun_steps import slot_memory
from backend.runtime.execution.claim import ClaimedSegment
from backend.runtime.execution.slots import StepSlots
from backend.runtime.execution.step_states import StepStates
from backend.runtime.worker.session import WorkerSession
from backend.storage.tables.runs import RunRow
from backend.storage.tables.segments import StepRow
from backend.workflows.terms import APPROVAL, WorkflowTerms


def starts_with_agents(terms: WorkflowTerms) -> bool:
    """Returns whether a run begins with steps, and requests no approval before."""
    kinds = {step.kind for step in terms.steps if not step.needs}
    return bool(kinds) and APPROVAL not in kinds


def reserve_slots(session: WorkerSession, key_id: str, terms: WorkflowTerms) -> "SlotReservation":
    """Reserves slots for a run without a PII policy and inputs to copy, of terms that begin with agents.

    Steps that have no slot now wait for one as those of any segment.
    """
    first = [step for step in terms.steps if not step.needs]
    held: dict[str, int] = {}
    for step in first[: terms.parallel_steps]:
        memory_mb = slot_memory(session.slots, step)
        if not session.slots.take_now(key_id, memory_mb):
            break
        held[step.step] = memory_mb
    return SlotReservation(session.engine, session.slots, key_id, terms, held)


class SlotReservation:
    """Slots of a key for the first steps of a run, by step with their memory; see `RunReservation`."""

    def __init__(
        self, engine: LocalEngine, slots: StepSlots, key_id: str, terms: WorkflowTerms, held: Mapping[str, int]
    ) -> None:
        self._engine: Final = engine
        self._slots: Final = slots
        self._key_id: Final = key_id
        self._terms: Final = terms
        self._held: Final = held
        self._segment_id: str | None = None
        self._claimed: ClaimedSegment | None = None

    def begin(self, run: RunRow, segment_id: str, steps: Sequence[StepRow], at: int) -> BegunRun | None:
        """Begins the steps, in the transaction that writes the run."""
        self._release_segment()
        if not self._engine.reserve(segment_id):
            return None
        self._segment_id = segment_id
        states = StepStates(self._terms.steps, run.run_id, segment_id, steps)
        for step in self._held:
            states.begin(step, at)
        changes = states.take_changes()
        self._claimed = ClaimedSegment(
            run_id=run.run_id,
            workflow_id=run.workflow_id,
            key_id=self._key_id,
            first=True,
            parameters=json_text.parse(run.parameters or "{}"),
            input_text=run.input_text,
            terms=self._terms,
            step_states=states,
            redaction=None,
            decisions=[],
            begun=list(self._held),
        )
        return BegunRun(self._engine.owner, changes.events, changes.steps)

    def settle(self, run_id: str | None) -> None:
        """Executes the run that was committed, with its slots; else releases them."""
        claimed, segment_id = self._claimed, self._segment_id
        if claimed is not None and segment_id is not None and claimed.run_id == run_id:
            self._engine.confirm(segment_id, claimed)
            return
        self._release_segment()
        self._engine.call_soon(self._release_slots)

    def _release_segment(self) -> None:
        if self._segment_id is not None:
            self._engine.release(self._segment_id)
        self._segment_id = self._claimed = None

    def _release_slots(self) -> None:
        for memory_mb in self._held.values():
            self._slots.release(self._key_id, memory_mb)
