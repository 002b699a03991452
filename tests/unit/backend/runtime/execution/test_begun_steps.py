"""Steps that begin in the transaction that takes their run's first segment."""

import asyncio
from collections.abc import Callable

from backend.runtime.execution.begun_steps import BegunSteps
from backend.runtime.execution.slots import StepSlots
from backend.runtime.execution.step_states import StepStates
from backend.step_status import StepStatus
from backend.storage.tables.segments import StepRow
from backend.workflows.manifests.defaults import DEFAULT_ENVIRONMENT
from backend.workflows.terms import AGENT, APPROVAL, StepTerms


def _terms(step: str, kind: str = AGENT, *needs: str) -> StepTerms:
    return StepTerms(
        step=step,
        name=step,
        kind=kind,
        needs=needs,
        optional=False,
        agent_name="agent",
        agent_id="agt_1",
        agent={"type": "python"},
        environment={**DEFAULT_ENVIRONMENT, "memory_mb": 10},
        connectors={},
        title=step,
        instructions=None,
    )


def _states(*terms: StepTerms) -> StepStates:
    rows = [
        StepRow(
            "run_1", position, each.step, each.name, each.kind, StepStatus.PENDING, "[]", None, None, 0, 0, *[None] * 5
        )
        for position, each in enumerate(terms)
    ]
    return StepStates(terms, "run_1", "seg_1", rows)


def _with_slots(scene: Callable[[StepSlots], None], count: int, memory_mb: int = 1_000) -> None:
    async def run() -> None:
        scene(StepSlots(count, memory_mb))

    asyncio.run(run())


def test_as_many_steps_begin_as_have_slots_now() -> None:
    def scene(slots: StepSlots) -> None:
        states = _states(_terms("a"), _terms("b"), _terms("c"))
        begun = BegunSteps(slots, "key", states)
        begun.begin(3, 5)
        assert begun.names == ["a", "b"]
        assert slots.in_use == 2
        assert [event.step for event in states.take_changes().events] == ["a", "b"]
        begun.release()
        assert slots.in_use == 0
        assert slots.request("other", 1_000).done(), "nobody waits before it, and all memory is free"

    _with_slots(scene, 2)


def test_no_more_steps_begin_than_the_workflow_has_run_at_once() -> None:
    def scene(slots: StepSlots) -> None:
        begun = BegunSteps(slots, "key", _states(_terms("a"), _terms("b")))
        begun.begin(1, 5)
        assert begun.names == ["a"]

    _with_slots(scene, 2)


def test_a_step_that_needs_another_does_not_begin() -> None:
    def scene(slots: StepSlots) -> None:
        begun = BegunSteps(slots, "key", _states(_terms("a"), _terms("b", AGENT, "a")))
        begun.begin(2, 5)
        assert begun.names == ["a"]

    _with_slots(scene, 2)


def test_where_approvals_are_asked_for_too_nothing_begins() -> None:
    def scene(slots: StepSlots) -> None:
        begun = BegunSteps(slots, "key", _states(_terms("a"), _terms("b", APPROVAL)))
        begun.begin(2, 5)
        assert begun.names == []
        assert slots.in_use == 0

    _with_slots(scene, 2)


def test_a_step_without_memory_left_does_not_begin() -> None:
    def scene(slots: StepSlots) -> None:
        begun = BegunSteps(slots, "key", _states(_terms("a"), _terms("b")))
        begun.begin(2, 5)
        assert begun.names == ["a"]

    _with_slots(scene, 2, memory_mb=15)
