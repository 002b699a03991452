"""Makes the work of one attempt of a step: of an agent, of a child run, or of a fan-out of either."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from backend.runtime.agents.model_meter import RunBudget
from backend.runtime.execution.child_run import ChildRun
from backend.runtime.execution.claim import ClaimedSegment
from backend.runtime.execution.expressions import Expressions
from backend.runtime.execution.fan_out import FanOutCompletion, FanOutWork
from backend.runtime.execution.item_bounds import StepItem
from backend.runtime.execution.preparation import StepInputs, inputs_folder
from backend.runtime.execution.run_capacity import RunCapacity
from backend.runtime.execution.segment_context import SegmentContext
from backend.runtime.execution.step_outcomes import StepCompletion, StepFailure, StepPause
from backend.runtime.execution.steps import StepWork
from backend.runtime.execution.traced_work import Work
from backend.services.workflows.resolved_workflow import Phase

StepOutcome = StepCompletion | FanOutCompletion | StepFailure | StepPause


@dataclass(frozen=True, slots=True)
class StepWorkFactory:
    """Factory of the works of one segment's steps, whose inputs are prepared.

    `release` gives back the slot of a step once its processes have ended.
    """

    context: SegmentContext
    claimed: ClaimedSegment
    segment_id: str
    inputs: StepInputs
    expressions: Expressions
    capacity: RunCapacity
    release: Callable[[str], None]
    budget: RunBudget

    def make(self, step: str, failure: Mapping[str, str | None] | None) -> Work[StepOutcome]:
        """Makes the work of a begun step's present attempt; `failure` is as in `StepWork`."""
        resolved = self.claimed.step_states.resolved_step(step)
        if resolved.fan_out is not None:
            return self._fan_out(step)
        return self._child(step) if resolved.child is not None else self._agent(step, failure)

    def _agent(self, step: str, failure: Mapping[str, str | None] | None = None) -> StepWork:
        claimed, states = self.claimed, self.claimed.step_states
        resolved = states.resolved_step(step)
        return StepWork(
            context=self.context,
            run_id=claimed.run_id,
            workflow_id=claimed.workflow_id,
            key_id=claimed.key_id,
            client_reference=claimed.client_reference,
            segment_id=self.segment_id,
            step=resolved,
            attempt=states.attempt(step),
            parameters=self.inputs.parameters,
            input_text=self.inputs.input_text,
            failure=failure,
            redaction=claimed.redaction,
            needs=states.needs_of(step),
            inputs=inputs_folder(self.context, claimed),
            keep_files=any(step in other.needs for other in claimed.workflow.steps),
            on_executed=partial(self.release, step),
            budget=self.budget,
            on_lost_usage=states.add_usage,
            may_ask=resolved.phase is Phase.MAIN and resolved.fan_out is None,
            resumes=states.resumes(step),
        )

    def _child(self, step: str) -> ChildRun:
        claimed, states = self.claimed, self.claimed.step_states
        return ChildRun(
            context=self.context,
            run_id=claimed.run_id,
            workflow_id=claimed.workflow_id,
            key_id=claimed.key_id,
            segment_id=self.segment_id,
            step=states.resolved_step(step),
            attempt=states.attempt(step),
            expressions=self.expressions,
            redaction=claimed.redaction,
        )

    def _fan_out(self, step: str) -> FanOutWork:
        claimed, states = self.claimed, self.claimed.step_states
        resolved = states.resolved_step(step)
        return FanOutWork(
            context=self.context,
            run_id=claimed.run_id,
            key_id=claimed.key_id,
            segment_id=self.segment_id,
            step=resolved,
            attempt=states.attempt(step),
            list_items=partial(self.expressions.items, resolved),
            redaction=claimed.redaction,
            capacity=self.capacity,
            parallel_steps=claimed.workflow.parallel_steps,
            work_of=self._children_of(step) if resolved.child is not None else self._agents_of(step),
            on_counts=partial(states.set_items, step),
            ended_run=states.items_from(step),
            on_lost_usage=states.add_usage,
        )

    def _agents_of(self, step: str) -> Callable[[StepItem, int, Callable[[], None]], StepWork]:
        work = self._agent(step)
        return lambda item, attempt, on_executed: replace(work, item=item, attempt=attempt, on_executed=on_executed)

    def _children_of(self, step: str) -> Callable[[StepItem, int, Callable[[], None]], ChildRun]:
        child = self._child(step)
        return lambda item, attempt, _: replace(child, item=item.value, item_index=item.index, attempt=attempt)
