"""Runs the steps of one claimed segment in the order of their needs, and parks or closes its run.

A step's process starts after the commit of its `step.started`, and a step completes in one transaction with its
outputs.
"""

import asyncio
import logging
from collections.abc import Coroutine
from functools import partial
from typing import Any

from backend.common.states import RunStatus
from backend.resources.schemas.validator import ValidatorUnavailableError
from backend.runtime.execution import dag, sql
from backend.runtime.execution.claim import ClaimedSegment, slot_memory
from backend.runtime.execution.closing import publish, store_result
from backend.runtime.execution.expressions import Expressions
from backend.runtime.execution.fan_out import FanOutCompletion
from backend.runtime.execution.preparation import prepare, remove_folder
from backend.runtime.execution.retries import wait_seconds
from backend.runtime.execution.run_capacity import RunCapacity
from backend.runtime.execution.segment_context import SegmentContext, StoppedError, StopSignal
from backend.runtime.execution.segment_journal import SegmentJournal
from backend.runtime.execution.step_files import drop_files
from backend.runtime.execution.step_outcomes import StepCompletion, StepFailure, StepPause
from backend.runtime.execution.step_work_factory import StepOutcome, StepWorkFactory
from backend.runtime.execution.traced_work import traced_step
from backend.runtime.outcomes import RunOutcome, reason_to_stop
from backend.services.runs import lifecycle_sql
from backend.services.runs.lifecycle import RunResult, SegmentEndedError, park_run, promote_outputs
from backend.services.workflows.resolved_workflow import Phase
from contract.failure_codes import INVARIANT_BLOCKED

_LOG = logging.getLogger(__name__)


class SegmentRun:
    """The execution of a claimed segment: tasks, slots, retries and outcome of its steps."""

    def __init__(
        self,
        context: SegmentContext,
        segment_id: str,
        claimed: ClaimedSegment,
        stop: asyncio.Event,
        abort: asyncio.Event,
    ) -> None:
        self._context = context
        self._segment_id = segment_id
        self._claimed = claimed
        self._step_states = claimed.step_states
        self._journal = SegmentJournal(context, segment_id, claimed)
        self._stop_signal = StopSignal(stop)
        self._stop = stop
        self._abort = abort
        self._slots: dict[str, asyncio.Future[None]] = {}
        self._holding: set[str] = set(claimed.begun)
        self._beginning: list[str] = list(claimed.begun)
        self._tasks: dict[asyncio.Task[StepOutcome], str] = {}
        self._backoffs: dict[str, asyncio.Task[None]] = {}
        self._capacity = RunCapacity(claimed.workflow.parallel_steps)
        self._parked = False
        self._conditions: dict[asyncio.Task[bool | str | StepFailure], str] = {}
        self._conditions_met: set[str] = set()
        self._summaries: dict[str, str] = {}
        self._works: StepWorkFactory | None = None
        self._outcome: RunOutcome | None = None
        self._failed_step: str | None = None

    async def run(self) -> None:
        """Runs the segment to its end; see `Segment.run`."""
        try:
            await self._run()
        except StoppedError:
            await self._discard()
            await self._journal.close_stopped(self._outcome)
        except SegmentEndedError:
            # The process that closed the run has recorded why.
            await self._discard()
        except Exception:  # noqa: BLE001 - the steps must die and the run must end, whatever the cause
            _LOG.exception("Segment %s failed unexpectedly", self._segment_id)
            await self._discard()
            await self._journal.close_stopped(self._outcome)
        finally:
            self._stop_signal.close()
            if not self._parked and self._context.folder_of_run(self._claimed.run_id).exists():
                await self._context.in_slow_thread(lambda: remove_folder(self._context, self._claimed.run_id))

    async def _run(self) -> None:
        try:
            if await self._prepare():
                await self._execute()
        except StoppedError:
            if not self._has_last_steps:
                raise
            outcome = await self._context.in_thread(self._reason_to_stop)
            if outcome is None or self._abort.is_set():
                raise
            await self._discard()
            await self._end(outcome)

    async def _prepare(self) -> bool:
        """Prepares the inputs of steps; returns whether there are steps to run.

        Raises:
            StoppedError: the segment is to stop, or only has to end a run that was parked.
        """
        if not await self._prepare_inputs():
            return False
        if self._claimed.first or not self._has_last_steps:
            return True
        if await self._context.in_thread(self._reason_to_stop) is not None:
            raise StoppedError
        return True

    async def _prepare_inputs(self) -> bool:
        context, claimed = self._context, self._claimed
        inputs = await prepare(context, claimed, self._journal, self._stop_signal)
        if inputs is not None:
            self._works = StepWorkFactory(
                context,
                claimed,
                self._segment_id,
                inputs,
                Expressions(context, claimed, inputs.parameters),
                self._capacity,
                self._release,
                claimed.budget,
            )
        return inputs is not None

    async def _execute(self) -> None:
        failure = await self._run_steps(Phase.MAIN)
        if failure is not None:
            await self._kill()
            await self._end(RunOutcome(RunStatus.FAILED, *failure))
        elif self._step_states.plan(self._conditions_met).done:
            await self._complete()
        else:
            await self._park()

    async def _run_steps(self, phase: Phase) -> tuple[str, str] | None:
        """Runs the steps of a phase until none can begin; returns code and message of a run that cannot go on."""
        while True:
            plan = self._step_states.plan(self._conditions_met, phase)
            self._step_states.settle(plan)
            failure = self._step_states.failure(plan)
            if failure is not None:
                self._failed_step = plan.failed or plan.stuck
                return failure
            self._evaluate(plan)
            to_request = [step for step in plan.request if step in self._summaries or not self._has_summary(step)]
            self._step_states.request_approvals(to_request, self._context.clock(), self._summaries)
            self._take_slots(plan)
            if not (self._tasks or self._slots or self._beginning or self._backoffs or self._conditions):
                return None
            await self._journal.record()
            self._start_steps()
            await self._wait()

    async def _end(self, outcome: RunOutcome) -> None:
        """Runs the steps of `on_failure` and `always`, and closes the failed or cancelled run; raises as `close`.

        From here on only an abort stops the segment.
        """
        self._outcome = outcome
        if self._has_last_steps and self._step_states.began:
            await self._begin_last_steps()
            self._step_states.cancel_unfinished(self._context.clock())
            run_id = self._claimed.run_id
            await self._journal.record(lambda tx, at: lifecycle_sql.end_waiting(tx, run_id, at))
            if outcome.status == RunStatus.FAILED:
                await self._run_steps(Phase.ON_FAILURE)
            else:
                self._step_states.skip_phase(Phase.ON_FAILURE, "The run did not fail.")
            await self._run_steps(Phase.ALWAYS)
        await self._journal.close(outcome)

    async def _begin_last_steps(self) -> None:
        self._stop_signal.close()
        self._stop_signal = StopSignal(self._abort)
        if self._works is None:
            # The request to stop came before the inputs were swept for personal data.
            await self._prepare_inputs()

    @property
    def _has_last_steps(self) -> bool:
        return self._claimed.workflow.has_last_steps

    def _evaluate(self, plan: dag.Plan) -> None:
        """Evaluates the conditions of steps, and the summaries of approvals, that the plan waits for."""
        assert self._works is not None
        expressions = self._works.expressions
        evaluating = set(self._conditions.values())
        summarised = [step for step in plan.request if step not in self._summaries and self._has_summary(step)]
        for step in [step for step in (*plan.evaluate, *summarised) if step not in evaluating]:
            resolved = self._step_states.resolved_step(step)
            work: Coroutine[Any, Any, bool | str | StepFailure] = (
                expressions.condition(resolved) if step in plan.evaluate else expressions.summary(resolved)
            )
            self._conditions[asyncio.create_task(work, name=f"{self._claimed.run_id}/{step}/expression")] = step

    def _has_summary(self, step: str) -> bool:
        approval = self._step_states.resolved_step(step).approval
        return approval is not None and approval.summary is not None

    def _take_slots(self, plan: dag.Plan) -> None:
        """Requests a slot for each step that may begin, and begins the steps that have their slot.

        A fan-out begins at once without a slot: its items count towards the run's capacity instead.
        """
        new = [step for step in plan.begin if step not in self._slots and step not in self._backoffs]
        for step in filter(self._fans_out, new):
            self._begin(step)
        executing = sum(not self._fans_out(step) for step in (*self._tasks.values(), *self._beginning))
        waiting = [step for step in new if not self._fans_out(step)]
        for step in waiting[: self._capacity.admit_steps(executing + len(self._slots), len(waiting))]:
            if self._step_states.resolved_step(step).takes_slot:
                self._slots[step] = self._context.slots.request(self._claimed.key_id, self._memory(step))
            else:
                self._begin(step)
        for step in [step for step, slot in self._slots.items() if slot.done()]:
            del self._slots[step]
            self._holding.add(step)
            self._begin(step)

    def _fans_out(self, step: str) -> bool:
        return self._step_states.resolved_step(step).fan_out is not None

    def _begin(self, step: str) -> None:
        self._beginning.append(step)
        self._step_states.begin(step, self._context.clock())

    def _start_steps(self) -> None:
        assert self._works is not None
        for step in self._beginning:
            work = self._works.make(step, self._failure)
            task = asyncio.create_task(traced_step(work), name=f"{self._claimed.run_id}/{step}")
            # A callback, because a task that is cancelled before it begins runs none of its code.
            task.add_done_callback(partial(self._release, step))
            self._tasks[task] = step
        self._beginning.clear()

    def _memory(self, step: str) -> int:
        return slot_memory(self._context.slots, self._step_states.resolved_step(step))

    def _release(self, step: str, _: object = None) -> None:
        """Releases a step's slot, once."""
        if step in self._holding:
            self._holding.remove(step)
            self._context.slots.release(self._claimed.key_id, self._memory(step))

    @property
    def _failure(self) -> dict[str, str | None] | None:
        """Returns step, code and message of the failure that ends the run; None where it did not fail."""
        outcome = self._outcome
        if outcome is None or outcome.status != RunStatus.FAILED:
            return None
        return {"step": self._failed_step, "code": outcome.code, "message": outcome.message}

    async def _wait(self) -> None:
        """Waits until a step finishes, gets a slot or may be retried, and records the outcomes of finished steps.

        Raises:
            StoppedError: the segment is to stop.
            SegmentEndedError: another process closed the run.
        """
        await self._stop_signal.wait_first(
            {
                *self._tasks,
                *self._slots.values(),
                *self._backoffs.values(),
                *self._conditions,
                self._capacity.freed,
            }
        )
        for condition in [condition for condition in self._conditions if condition.done()]:
            self._apply_condition(self._conditions.pop(condition), condition.result())
        for step in [step for step, backoff in self._backoffs.items() if backoff.done()]:
            del self._backoffs[step]
        for task in [task for task in self._tasks if task.done()]:
            step = self._tasks.pop(task)
            at = self._context.clock()
            match task.result():
                case StepCompletion(value, files, redacted, warnings, swept) as completed:
                    self._step_states.add_usage(completed.usage)
                    self._step_states.complete(step, value, files, at, warnings, swept)
                    self._step_states.changes.redacted += redacted
                case FanOutCompletion(value, files_count, outputs, warnings):
                    self._step_states.complete_fan_out(step, value, files_count, outputs, at, warnings)
                case StepPause() as pause:
                    self._step_states.add_usage(pause.usage)
                    self._step_states.changes.redacted += pause.redacted
                    self._step_states.pause(step, pause, at)
                case StepFailure() as failed:
                    self._step_states.add_usage(failed.usage)
                    self._step_states.changes.redacted += failed.redacted
                    self._retry_or_fail(step, failed, at)
        for warning in () if self._claimed.redaction is None else self._claimed.redaction.take_warnings():
            self._step_states.warn(warning)

    def _apply_condition(self, step: str, given: bool | str | StepFailure) -> None:
        match given:
            case StepFailure() as failed:
                self._step_states.changes.redacted += failed.redacted
                self._step_states.fail(step, failed.type, failed.message, self._context.clock())
            case str() as summary:
                self._summaries[step] = summary
            case True:
                self._conditions_met.add(step)
            case False:
                self._step_states.skip(step, "Its condition is false.")

    def _retry_or_fail(self, step: str, failed: StepFailure, at: int) -> None:
        retry = None if failed.final else self._step_states.resolved_step(step).retry
        attempts = self._step_states.attempt(step) - self._step_states.pauses(step)
        seconds = wait_seconds(retry, attempts, failed.unswept_type, failed.retry_after)
        if seconds is None:
            self._step_states.fail(step, failed.type, failed.message, at)
            return
        self._step_states.retry(step, failed.type, failed.message, at + round(seconds * 1000))
        self._backoffs[step] = asyncio.create_task(asyncio.sleep(seconds))

    async def _park(self) -> None:
        self._parked = True
        await self._context.in_slow_thread(lambda: drop_files(self._context, self._claimed.run_id))
        await self._journal.record(lambda tx, at: park_run(tx, self._segment_id, at))

    async def _complete(self) -> None:
        """Stores the result, publishes outputs, and closes the run as completed, with its warnings."""
        claimed, step_states, context = self._claimed, self._step_states, self._context
        warnings = step_states.warnings()
        result, output = RunResult(), None
        value = step_states.value(claimed.workflow.result_step) if claimed.workflow.result_step else None
        if value is not None:
            try:
                result, output, result_warnings = await store_result(context, claimed, self._stop_signal, value)
            except OSError as error:
                verb = "judged" if isinstance(error, ValidatorUnavailableError) else "stored"
                _LOG.exception("The result of run %s could not be %s", claimed.run_id, verb)
                await self._end(RunOutcome(RunStatus.FAILED, INVARIANT_BLOCKED, f"The result could not be {verb}."))
                return
            for message in result_warnings:
                step_states.changes.add_event("warning", message=message)
            warnings += result_warnings
        if self._has_last_steps:
            try:
                await self._run_always()
            except BaseException:
                await self._journal.discard([] if output is None else [output])
                raise
        if claimed.workflow.publish:
            if output is not None:
                step_states.changes.files.append(output)
                output = None
            await self._journal.record(lambda tx, at: promote_outputs(tx, claimed.run_id, self._segment_id, at))
            warnings += await publish(
                context,
                claimed.run_id,
                claimed.workflow.publish,
                step_states,
                self._journal.record,
                self._wait_for_publication,
                reasons=claimed.redaction is None,
            )
        step_states.skip_phase(Phase.ON_FAILURE, "The run did not fail.")
        await self._journal.complete(result, output, warnings, promoted=bool(claimed.workflow.publish))

    async def _run_always(self) -> None:
        """Runs the steps of `always` of a run that completes; an abort ends only these steps."""
        if self._step_states.began:
            await self._begin_last_steps()
            try:
                await self._run_steps(Phase.ALWAYS)
            except StoppedError:
                # The end of the process alone fails no run whose steps are done.
                await self._kill()
            self._stop_signal.close()
            self._stop_signal = StopSignal(self._stop)
        self._step_states.skip_phase(Phase.ALWAYS, "No step began.")

    async def _wait_for_publication(self, outcome: asyncio.Future[Any], seconds: float) -> None:
        try:
            await self._stop_signal.wait_first({outcome}, seconds)
        except StoppedError:
            # The end of the process alone fails no run whose steps are done: its publications go on at the next start.
            if await self._context.in_thread(self._reason_to_stop):
                raise

    def _reason_to_stop(self) -> RunOutcome | None:
        run = self._context.database.read(lambda tx: sql.run_of_segment(tx, self._segment_id))
        return reason_to_stop(run, self._context.clock())

    async def _discard(self) -> None:
        """Ends every step, and discards changes that were not recorded."""
        await self._kill()
        changes = self._step_states.take_changes()
        await self._journal.discard_unrecorded(changes.files, changes.model_usage)

    async def _kill(self) -> None:
        """Ends every step, and releases every slot; on return no process of the segment is left."""
        for step, slot in self._slots.items():
            if not slot.cancel():
                self._holding.add(step)
                self._release(step)
        for step in self._beginning:
            self._release(step)
        self._slots.clear()
        self._beginning.clear()
        for backoff in self._backoffs.values():
            backoff.cancel()
        self._backoffs.clear()
        for condition in self._conditions:
            condition.cancel()
        await asyncio.gather(*self._conditions, return_exceptions=True)
        self._conditions.clear()
        for task in self._tasks:
            task.cancel()
        outcomes = await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        for one in outcomes:
            if isinstance(one, StepCompletion | StepFailure | StepPause):
                self._step_states.add_usage(one.usage)
        stored = [one for one in outcomes if isinstance(one, StepCompletion | StepPause)]
        await self._journal.discard([file for one in stored for file in one.files])
