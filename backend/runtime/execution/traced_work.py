"""Spans of segments and of the attempts of their steps, where traces are on."""

import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from backend.runtime.execution.child_run import ChildRun
from backend.runtime.execution.segment_context import SegmentContext
from backend.runtime.execution.steps import StepCompletion, StepFailure, StepWork
from backend.services import run_traces_sql
from telemetry import tracing

if TYPE_CHECKING:
    from telemetry.otel import Tracing

_LOG = logging.getLogger(__name__)


async def traced_segment(
    context: SegmentContext, segment_id: str, work: Callable[[], Awaitable[None]], *, reserved: bool
) -> None:
    """Does the work of a segment, in a span of the trace of its run's start, beside that of its time in the queue.

    `reserved` says that its run's start had slots for it, so that it was in no queue.
    """
    recording = tracing.active()
    if recording is None:
        await work()
        return
    row = None
    try:
        row = await context.read(lambda tx: run_traces_sql.of_segment(tx, segment_id))
    except Exception:  # noqa: BLE001 - the work counts, not its trace
        _LOG.warning("The trace of segment %s could not be read", segment_id, exc_info=True)
    if row is None:
        with recording.executed("segment", {}, {}):
            await work()
        return
    attributes: dict[str, str | int | bool] = {
        "workflow_api.run_id": row.run_id,
        "workflow_api.workflow_id": row.workflow_id,
        "workflow_api.segment_id": segment_id,
        "workflow_api.segment.ordinal": row.ordinal,
        "workflow_api.segment.reserved": reserved,
    }
    with recording.executed("segment", row.carrier, attributes, queued_at_ms=row.created_at):
        await work()


def traced_step(work: StepWork | ChildRun) -> Coroutine[Any, Any, StepCompletion | StepFailure]:
    """Returns the work of one attempt of a step, in a span."""
    recording = tracing.active()
    return work.run() if recording is None else _traced_step(work, recording)


async def _traced_step(work: StepWork | ChildRun, recording: "Tracing") -> StepCompletion | StepFailure:
    agent = work.step.agent
    attributes: dict[str, str | int] = {
        "workflow_api.run_id": work.run_id,
        "workflow_api.step": work.step.step,
        "workflow_api.step.attempt": work.attempt,
        "workflow_api.agent.type": "none" if agent is None else str(agent["type"]),
    }
    with recording.child("step", attributes) as span:
        outcome = await work.run()
        if isinstance(outcome, StepFailure):
            # The name of the failure may be one that the agent chose.
            recording.fail(span, "step_failed")
        return outcome
