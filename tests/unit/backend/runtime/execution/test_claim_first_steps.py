"""Steps that begin in the transaction in which their run's first segment begins."""

import asyncio
from collections.abc import Callable

from backend.common.states import StepStatus
from backend.runtime.execution.claim import FirstSteps, steps_to_begin
from backend.runtime.execution.slots import StepSlots
from backend.runtime.execution.step_states import StepStates, UnitOfWork
from backend.services.workflows.manifests.names import DEFAULT_ENVIRONMENT
from backend.services.workflows.resolved_workflow import AGENT, APPROVAL, ResolvedStep, ResolvedWorkflow
from backend.storage.tables.segments import StepRow


def _terms(step: str, kind: str = AGENT, *needs: str) -> ResolvedStep:
    return ResolvedStep(
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


def _states(terms: ResolvedWorkflow) -> StepStates:
    rows = [
        StepRow(
            "run_1", position, each.step, each.name, each.kind, StepStatus.PENDING, "[]", None, None, 0, 0, *[None] * 13
        )
        for position, each in enumerate(terms.steps)
    ]
    return StepStates(terms.steps, "run_1", "seg_1", rows)


def _begun(slots: StepSlots, *steps: ResolvedStep, parallel: int = 3) -> tuple[FirstSteps, UnitOfWork]:
    """What begins of a run of these steps, and what that changes."""
    terms = ResolvedWorkflow("wf_1", "Steps", "active", 1, steps=steps, parallel_steps=parallel)
    states = _states(terms)
    return FirstSteps(slots, "key", steps_to_begin(terms), parallel, states, 5), states.take_changes()


def _with_slots(scene: Callable[[StepSlots], None], count: int, memory_mb: int = 1_000) -> None:
    async def run() -> None:
        scene(StepSlots(count, memory_mb))

    asyncio.run(run())


def test_as_many_steps_begin_as_have_slots_now() -> None:
    def scene(slots: StepSlots) -> None:
        begun, changes = _begun(slots, _terms("a"), _terms("b"), _terms("c"))
        assert begun.names == ["a", "b"]
        assert slots.in_use == 2
        assert [event.step for event in changes.events] == ["a", "b"]
        begun.release()
        assert slots.in_use == 0
        assert slots.request("other", 1_000).done(), "nobody waits before it, and all memory is free"

    _with_slots(scene, 2)


def test_no_more_steps_begin_than_the_workflow_has_run_at_once() -> None:
    def scene(slots: StepSlots) -> None:
        begun, _ = _begun(slots, _terms("a"), _terms("b"), parallel=1)
        assert begun.names == ["a"]

    _with_slots(scene, 2)


def test_a_step_that_needs_another_does_not_begin() -> None:
    def scene(slots: StepSlots) -> None:
        begun, _ = _begun(slots, _terms("a"), _terms("b", AGENT, "a"))
        assert begun.names == ["a"]

    _with_slots(scene, 2)


def test_where_approvals_are_asked_for_too_nothing_begins() -> None:
    def scene(slots: StepSlots) -> None:
        begun, changes = _begun(slots, _terms("a"), _terms("b", APPROVAL))
        assert begun.names == []
        assert not changes
        assert slots.in_use == 0

    _with_slots(scene, 2)


def test_approvals_alone_are_requested_without_a_slot() -> None:
    def scene(slots: StepSlots) -> None:
        begun, changes = _begun(slots, _terms("a", APPROVAL), _terms("b", APPROVAL), _terms("c", AGENT, "a"))
        assert begun.names == []
        assert [(row["step"], row["state"]) for row in changes.approvals] == [("a", "pending"), ("b", "pending")]
        assert [(event.type, event.step) for event in changes.events] == [
            ("approval.requested", "a"),
            ("approval.requested", "b"),
        ]
        assert slots.in_use == 0

    _with_slots(scene, 1)


def test_a_step_without_memory_left_does_not_begin() -> None:
    def scene(slots: StepSlots) -> None:
        begun, _ = _begun(slots, _terms("a"), _terms("b"))
        assert begun.names == ["a"]

    _with_slots(scene, 2, memory_mb=15)
