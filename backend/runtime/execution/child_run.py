"""Runs one attempt of a step that names a workflow: starts a child run, waits for its end, returns its result.

The child may execute in any process. Its parent holds no slot meanwhile. It subscribes to the changes of the
child, and reads the child every `CHECK_SECONDS` as well, in case an announcement was lost.
"""

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final

from backend.common import json_text, metrics, workflow_metrics
from backend.common.ids import new_id
from backend.common.json_text import JsonObject, JsonValue
from backend.common.states import RUN_TERMINAL, RunStatus
from backend.resources.redaction.confined_redactor import RedactionError
from backend.resources.schemas.expression_scope import Expected
from backend.runtime.agents import StepFailed
from backend.runtime.execution import retries, sql
from backend.runtime.execution.expressions import Expressions
from backend.runtime.execution.segment_context import SegmentContext, run_shielded
from backend.runtime.execution.sql import ChildRow
from backend.runtime.execution.steps import StepCompletion, StepFailure
from backend.runtime.run_redaction import RunRedaction
from backend.services.outputs import sql as outputs_sql
from backend.services.runs.lifecycle import SegmentEndedError, append_event, cancel_child
from backend.services.runs.redaction_manifest_sql import STEPS, StageCounts
from backend.services.runs.start.children import ChildRefusedError, ChildStarter, NewChild
from backend.services.workflows.manifests.flows import expression_in
from backend.services.workflows.resolved_workflow import ResolvedStep
from backend.services.workflows.rules import Definition
from backend.storage.database import DatabaseUnavailableError, Tx
from redaction.counts import Counts
from telemetry import tracing

_LOG = logging.getLogger(__name__)

CHECK_SECONDS: Final = 10.0
"""Seconds after which a parent reads its child without an announcement."""
_LEAST_SECONDS: Final = 0.05
_NOT_STARTED: Final = "ChildNotStarted"
_FAILED: Final = "ChildFailed"


@dataclass(frozen=True, slots=True)
class ChildRun:
    """One attempt of one step that names a workflow, or of one item of such a step.

    `expressions` belong to the parent. `item` and `item_index` belong to a fan-out; without one, `item_index` is None.
    """

    context: SegmentContext
    run_id: str
    workflow_id: str
    key_id: str
    segment_id: str
    step: ResolvedStep
    attempt: int
    expressions: Expressions
    redaction: RunRedaction | None
    item: JsonValue = None
    item_index: int | None = None

    async def run(self) -> StepCompletion | StepFailure:
        """Runs the attempt to its end; a cancellation of the attempt cancels the child as well.

        Raises:
            SegmentEndedError: the parent was closed meanwhile.
        """
        began = perf_counter()
        outcome = await self._attempt()
        named = "completed" if isinstance(outcome, StepCompletion) else "failed"
        seconds = perf_counter() - began
        metrics.STEP_SECONDS.observe(seconds, "workflow", named)
        workflow_metrics.count_attempt(self.workflow_id, self.step.step, named, seconds)
        return outcome

    async def _attempt(self) -> StepCompletion | StepFailure:
        child_id = new_id("run")
        try:
            await self._start(child_id)
            return await self._completion(await self._wait_for_end(child_id))
        except StepFailed as failure:
            metrics.STEP_FAILURES.add(failure.type)
            return await self._sweep_failure(failure)
        except asyncio.CancelledError:
            await self._cancel(child_id)
            raise
        except SegmentEndedError:
            raise
        except Exception:  # noqa: BLE001 - only this step fails, whatever the cause
            metrics.STEP_FAILURES.add("InternalError")
            _LOG.exception("Step %s of run %s failed unexpectedly", self.step.step, self.run_id)
            await self._cancel(child_id)
            return StepFailure("InternalError", "the runtime could not carry out the step")

    async def _start(self, child_id: str) -> None:
        named = self.step.child
        assert named is not None
        context, starter = self.context, ChildStarter(self.context.cache, self.context.capabilities)
        child = NewChild(
            run_id=child_id,
            parent_run_id=self.run_id,
            segment_id=self.segment_id,
            step=self.step.step,
            item=self.item_index,
            workflow=named,
            parameters=await self._evaluate_parameters(named.parameters),
            at=context.clock(),
            trace=tracing.recorded(),
        )
        what = f"Starting the child of step {self.step.step} of run {self.run_id}"
        try:
            workflow = await retries.DATABASE.run(
                lambda: context.in_thread(lambda: context.database.snapshot(lambda tx: starter.resolve(tx, named))),
                what,
            )
            inputs = await context.in_thread(lambda: starter.validate_inputs(child, workflow))
            # A cancellation locks another key: the start must have ended before it looks for the child.
            await run_shielded(
                retries.REPEATABLE.run(
                    lambda: context.write_run(self.run_id, self.key_id, lambda tx: starter.start(tx, child, inputs)),
                    what,
                )
            )
        except ChildRefusedError as error:
            raise StepFailed(_NOT_STARTED, str(error), final=True) from error

    async def _evaluate_parameters(self, parameters: Definition) -> JsonObject:
        """Returns the parameters of the child, with expressions replaced by their values."""
        found = {name: source for name, value in parameters.items() if (source := expression_in(value)) is not None}
        if not found:
            return dict(parameters)
        expressions = [(source, Expected.VALUE) for source in found.values()]
        given = await self.expressions.evaluate(self.step, expressions, item=self.item, item_index=self.item_index)
        if isinstance(given, StepFailure):
            raise StepFailed(given.type, given.message, final=True)
        return {**parameters, **dict(zip(found, given, strict=True))}

    async def _wait_for_end(self, child_id: str) -> ChildRow:
        """Returns the child once it has ended and, under a PII policy, its outputs were swept."""
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            loop.call_soon_threadsafe(changed.set)

        subscription = self.context.changes.subscribe(child_id)
        recorded = False
        try:
            while True:
                subscription.take()
                child = await self._child(child_id)
                if child is not None and child.status in RUN_TERMINAL and not recorded:
                    data = {"run_id": child_id, "status": child.status, "item_index": self.item_index}
                    await self._append("child.ended", data)
                    recorded = True
                if child is not None and _is_final(child):
                    return child
                # A child that reports much is not read for each of its events.
                await asyncio.sleep(_LEAST_SECONDS)
                changed.clear()
                subscription.add_done_callback(wake)
                with suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), CHECK_SECONDS)
        finally:
            subscription.close()

    async def _child(self, child_id: str) -> ChildRow | None:
        """Returns the child; None where the database is unavailable for the moment."""
        try:
            return await self.context.read(lambda tx: sql.child(tx, child_id))
        except DatabaseUnavailableError as error:
            _LOG.debug("Child %s could not be read: %s", child_id, error)
            return None

    async def _completion(self, child: ChildRow) -> StepCompletion:
        if child.status != RunStatus.COMPLETED:
            raise StepFailed(_FAILED, _failure_message(child), final=True)
        if child.data_purged_at is not None:
            raise StepFailed(_FAILED, f"run {child.run_id} completed, and its data was erased", final=True)
        sweeps = self.redaction is not None and self.redaction.covers(STEPS)
        if sweeps:
            await self._append("redaction.started", {"stage": STEPS})
        value, redacted = await self._sweep(STEPS, json_text.shared(await self._result(child)))
        swept = Counts() if sweeps else None
        if swept is not None:
            for one in redacted:
                swept.add(one.counts)
        warnings = []
        if child.result_error_code is not None:
            warnings.append(
                f"The result of run {child.run_id}, which step '{self.step.step}' started, is not used: "
                "it does not fit its schema."
            )
        return StepCompletion(json_text.text_of(value), [], redacted, warnings, swept)

    async def _result(self, child: ChildRow) -> str:
        """Returns the child's result as JSON text; `null` where there is none or it does not fit its schema."""
        if child.result is not None or child.result_error_code is not None or child.result_output_id is None:
            return child.result or "null"
        output_id = child.result_output_id
        try:
            return await retries.RESOURCE.run(
                lambda: self.context.in_slow_thread(lambda: self._read_stored(child.run_id, output_id)),
                f"Reading the result of run {child.run_id}",
            )
        except (OSError, KeyError, EOFError) as error:
            _LOG.exception("The result of run %s could not be read", child.run_id)
            raise StepFailed(_FAILED, f"run {child.run_id} completed, and its result could not be read") from error

    def _read_stored(self, run_id: str, output_id: str) -> str:
        row = self.context.database.read(lambda tx: outputs_sql.output(tx, run_id, output_id))
        if row is None:
            raise KeyError(output_id)
        reader = self.context.objects.open_range(row.object_key, 0, row.size_bytes)
        try:
            return b"".join(reader).decode()
        finally:
            reader.close()

    async def _sweep_failure(self, failure: StepFailed) -> StepFailure:
        stage = None if self.redaction is None else self.redaction.message_stage
        message, redacted = failure.message, list[StageCounts]()
        try:
            message, redacted = await self._sweep(stage, failure.message)
        except StepFailed as unswept:
            message = unswept.message
        return StepFailure(failure.type, message, failure.final, unswept_type=failure.type, redacted=redacted)

    async def _sweep(self, stage: str | None, value: Any) -> tuple[Any, list[StageCounts]]:
        redaction = self.redaction
        if redaction is None or stage is None or not redaction.covers(stage):
            return value, []
        try:
            swept, counts = await self.context.in_cancellable_thread(lambda halt: redaction.value(value, halt))
        except RedactionError as error:
            message = f"what the child gave could not be swept for personal data: {error}"
            raise StepFailed("RedactionFailed", message, final=error.permanent) from error
        return swept, [StageCounts(stage, counts)]

    async def _append(self, event_type: str, data: JsonObject) -> None:
        at = self.context.clock()

        def work(tx: Tx) -> None:
            append_event(tx, self.segment_id, event_type, at, step=self.step.step, data=data)

        await retries.DATABASE.run(
            lambda: self.context.write_run(self.run_id, self.key_id, work), f"An event of run {self.run_id}"
        )

    async def _cancel(self, child_id: str) -> None:
        """Cancels the child, if it was started; after a failure, the end of the parent cancels it."""
        at = self.context.clock()
        try:
            await self.context.write_run(child_id, self.key_id, lambda tx: cancel_child(tx, child_id, at))
        except Exception:  # noqa: BLE001 - the parent ends all the same
            _LOG.exception("Child %s of run %s could not be cancelled yet", child_id, self.run_id)


def _is_final(child: ChildRow) -> bool:
    """Returns whether the status and the result of the child are final."""
    if child.status == RunStatus.COMPLETED:
        return child.redaction_state != "pending" or child.data_purged_at is not None
    return child.status in RUN_TERMINAL


def _failure_message(child: ChildRow) -> str:
    if child.status == RunStatus.CANCELLED:
        return f"run {child.run_id} was cancelled"
    reason = "" if child.error_message is None else f": {child.error_message}"
    return f"run {child.run_id} failed with {child.error_code}{reason}"
