"""Trace spans around segments and attempts of steps, if tracing is on."""

import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Protocol, TypeVar

from backend.runtime.execution.segment_context import SegmentContext
from backend.runtime.execution.steps import StepFailure
from backend.services import run_traces_sql
from backend.services.workflows.resolved_workflow import ResolvedStep
from telemetry import tracing

if TYPE_CHECKING:
    from telemetry.otel import Tracing

OutcomeT_co = TypeVar("OutcomeT_co", covariant=True)

_LOG = logging.getLogger(__name__)


async def traced_segment(
    context: SegmentContext, segment_id: str, work: Callable[[], Awaitable[None]], *, reserved: bool
) -> None:
    """Does the work of a segment in a span of the trace that started its run.

    `reserved` says that the start of the run reserved slots, so that the segment was never queued.
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


class Work(Protocol[OutcomeT_co]):
    """The work of one attempt of a step, or of an item of its fan-out."""

    @property
    def run_id(self) -> str:
        """Id of the run."""

    @property
    def step(self) -> ResolvedStep:
        """The step of the definition."""

    @property
    def attempt(self) -> int:
        """The number of the attempt, from 1."""

    def run(self) -> Coroutine[object, None, OutcomeT_co]:
        """Does the work."""


def traced_step(work: Work[OutcomeT_co]) -> Coroutine[object, None, OutcomeT_co]:
    """Returns the work's coroutine, wrapped in a span if tracing is on."""
    recording = tracing.active()
    return work.run() if recording is None else _traced_step(work, recording)


async def _traced_step(work: Work[OutcomeT_co], recording: "Tracing") -> OutcomeT_co:
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
            # A constant, because the failure's type may be a name that the agent chose.
            recording.fail(span, "step_failed")
        return outcome
