"""Executes one segment of a run: claims it, runs its steps in the order of their needs, and parks or closes the run.

Each act follows a durable record: a step's process starts after its `step.started` was committed, and a step completes
in one transaction with its outputs.
"""

import asyncio
import logging
from contextlib import suppress
from functools import partial
from typing import Any

from backend.common.states import RunStatus
from backend.resources.schemas.validator import ValidatorUnavailableError
from backend.runtime.execution import dag, retries, sql
from backend.runtime.execution.child_run import ChildRun
from backend.runtime.execution.claim import ClaimedSegment, claim_segment, slot_memory
from backend.runtime.execution.closing import publish, store_result
from backend.runtime.execution.preparation import StepInputs, inputs_folder, prepare, remove_folder
from backend.runtime.execution.retries import wait_seconds
from backend.runtime.execution.segment_context import SegmentContext, StoppedError, StopSignal
from backend.runtime.execution.segment_journal import SegmentJournal
from backend.runtime.execution.step_files import drop_files
from backend.runtime.execution.steps import StepCompletion, StepFailure, StepWork
from backend.runtime.execution.traced_work import traced_segment, traced_step
from backend.runtime.outcomes import RunOutcome, reason_to_stop
from backend.services.runs.lifecycle import RunResult, SegmentEndedError, park_run, promote_outputs, requeue_segment
from backend.storage.database import DatabaseUnavailableError, Tx
from contract.failure_codes import INVARIANT_BLOCKED

_LOG = logging.getLogger(__name__)

StepOutcome = StepCompletion | StepFailure


class Segment:
    """One segment, used on the engine's loop only; `claimed` where its run's start has claimed it."""

    def __init__(self, context: SegmentContext, segment_id: str, claimed: ClaimedSegment | None = None) -> None:
        self._context = context
        self._segment_id = segment_id
        self._claimed = claimed
        self._stop = asyncio.Event()

    @property
    def claimed(self) -> bool:
        """Returns whether the segment was set running for this process; from any thread."""
        return self._claimed is not None

    def stop(self) -> None:
        """Makes the segment kill its steps and close its run, with the outcome that the run's row then says."""
        self._stop.set()

    async def run(self) -> None:
        """Executes the segment to its end; an unexpected failure is logged, and ends a run that began as `orphaned`."""
        await traced_segment(self._context, self._segment_id, self._execute, reserved=self.claimed)

    async def _execute(self) -> None:
        claimed = self._claimed
        if claimed is None:
            if self._stop.is_set():
                # Its run would only be ended.
                await self._requeue()
                return
            claimed = self._claimed = await self._claim()
        if claimed is not None:
            await _SegmentRun(self._context, self._segment_id, claimed, self._stop).run()

    async def _claim(self) -> ClaimedSegment | None:
        what = f"The claim of segment {self._segment_id}"
        try:
            return await retries.DATABASE.run(lambda: claim_segment(self._context, self._segment_id), what)
        except DatabaseUnavailableError as error:
            _LOG.warning("Segment %s could not be claimed: %s", self._segment_id, error)
            await self._requeue()
        except Exception:  # noqa: BLE001 - logged; other segments go on
            # The run reaper requeues it, until its launch times out.
            _LOG.exception("Segment %s could not be claimed", self._segment_id)
        return None

    async def _requeue(self) -> None:
        """Requeues the segment, which did not begin; a failure is left to the run reaper."""
        with suppress(DatabaseUnavailableError):
            await self._context.write(self._write_requeue, lock_key="launcher")

    def _write_requeue(self, tx: Tx) -> None:
        # Nobody sees who has a segment that has not begun.
        tx.uncounted = True
        requeue_segment(tx, self._segment_id)


class _SegmentRun:
    """The execution of a claimed segment."""

    def __init__(self, context: SegmentContext, segment_id: str, claimed: ClaimedSegment, stop: asyncio.Event) -> None:
        self._context = context
        self._segment_id = segment_id
        self._claimed = claimed
        self._step_states = claimed.step_states
        self._journal = SegmentJournal(context, segment_id, claimed)
        self._stop_signal = StopSignal(stop)
        self._slots: dict[str, asyncio.Future[None]] = {}
        self._holding: set[str] = set(claimed.begun)
        self._beginning: list[str] = list(claimed.begun)
        self._tasks: dict[asyncio.Task[StepOutcome], str] = {}
        self._backoffs: dict[str, asyncio.Task[None]] = {}
        self._parked = False
        self._step_inputs = StepInputs(claimed.parameters, claimed.input_text)

    async def run(self) -> None:
        try:
            step_inputs = await prepare(self._context, self._claimed, self._journal, self._stop_signal)
            if step_inputs is not None:
                self._step_inputs = step_inputs
                await self._execute()
        except StoppedError:
            await self._give_up()
            await self._journal.close_stopped()
        except SegmentEndedError:
            # The process that closed the run has recorded why.
            await self._give_up()
        except Exception:  # noqa: BLE001 - the steps must die and the run must end, whatever the cause
            _LOG.exception("Segment %s failed unexpectedly", self._segment_id)
            await self._give_up()
            await self._journal.close_stopped()
        finally:
            self._stop_signal.close()
            if not self._parked and self._context.folder_of_run(self._claimed.run_id).exists():
                await self._context.in_slow_thread(lambda: remove_folder(self._context, self._claimed.run_id))

    async def _execute(self) -> None:
        while True:
            plan = self._step_states.plan()
            self._step_states.settle(plan)
            failure = self._step_states.failure(plan)
            if failure is not None:
                await self._kill()
                await self._journal.close(RunOutcome(RunStatus.FAILED, *failure))
                return
            self._step_states.request_approvals(plan.ask, self._context.clock())
            self._take_slots(plan)
            if not (self._tasks or self._slots or self._beginning or self._backoffs):
                await (self._complete() if plan.done else self._park())
                return
            await self._journal.record()
            self._start_steps()
            await self._wait()

    def _take_slots(self, plan: dag.Plan) -> None:
        """Requests a slot for each step that may begin, and begins those that have theirs."""
        room = self._claimed.terms.parallel_steps - len(self._tasks) - len(self._slots) - len(self._beginning)
        new = [step for step in plan.begin if step not in self._slots and step not in self._backoffs]
        for step in new[:room]:
            if self._step_states.terms(step).takes_slot:
                self._slots[step] = self._context.slots.request(self._claimed.key_id, self._memory(step))
            else:
                self._begin(step)
        for step in [step for step, slot in self._slots.items() if slot.done()]:
            del self._slots[step]
            self._holding.add(step)
            self._begin(step)

    def _begin(self, step: str) -> None:
        self._beginning.append(step)
        self._step_states.begin(step, self._context.clock())

    def _start_steps(self) -> None:
        for step in self._beginning:
            work = self._step_work(step)
            task = asyncio.create_task(traced_step(work), name=f"{self._claimed.run_id}/{step}")
            # Not in the task itself: a task that is cancelled before it began runs none of its code.
            task.add_done_callback(partial(self._release, step))
            self._tasks[task] = step
        self._beginning.clear()

    def _memory(self, step: str) -> int:
        return slot_memory(self._context.slots, self._step_states.terms(step))

    def _release(self, step: str, _: object = None) -> None:
        """Releases a step's slot, once."""
        if step in self._holding:
            self._holding.remove(step)
            self._context.slots.release(self._claimed.key_id, self._memory(step))

    def _step_work(self, step: str) -> StepWork | ChildRun:
        claimed = self._claimed
        if self._step_states.terms(step).child is not None:
            return ChildRun(
                context=self._context,
                run_id=claimed.run_id,
                workflow_id=claimed.workflow_id,
                key_id=claimed.key_id,
                segment_id=self._segment_id,
                step=self._step_states.terms(step),
                attempt=self._step_states.attempt(step),
                declared=claimed.terms.parameters,
                parameters=self._step_inputs.parameters,
                needs=self._step_states.needs_as_text(step),
                redaction=claimed.redaction,
            )
        return StepWork(
            context=self._context,
            run_id=claimed.run_id,
            workflow_id=claimed.workflow_id,
            key_id=claimed.key_id,
            client_reference=claimed.client_reference,
            segment_id=self._segment_id,
            step=self._step_states.terms(step),
            attempt=self._step_states.attempt(step),
            parameters=self._step_inputs.parameters,
            input_text=self._step_inputs.input_text,
            redaction=claimed.redaction,
            needs=self._step_states.needs_of(step),
            inputs=inputs_folder(self._context, claimed),
            keep_files=any(step in other.needs for other in claimed.terms.steps),
            on_executed=partial(self._release, step),
        )

    async def _wait(self) -> None:
        """Waits until a step finishes, gets a slot or may be retried, and takes up the outcomes of finished steps.

        Raises:
            StoppedError: the segment is to stop.
            SegmentEndedError: another process closed the run.
        """
        await self._stop_signal.wait_first({*self._tasks, *self._slots.values(), *self._backoffs.values()})
        for step in [step for step, backoff in self._backoffs.items() if backoff.done()]:
            del self._backoffs[step]
        for task in [task for task in self._tasks if task.done()]:
            step = self._tasks.pop(task)
            at = self._context.clock()
            match task.result():
                case StepCompletion(value, files, redacted, warnings, swept):
                    self._step_states.complete(step, value, files, at, warnings, swept)
                    self._step_states.changes.redacted += redacted
                case StepFailure() as failed:
                    self._step_states.changes.redacted += failed.redacted
                    self._take_failure(step, failed, at)
        for warning in () if self._claimed.redaction is None else self._claimed.redaction.take_warnings():
            self._step_states.warn(warning)

    def _take_failure(self, step: str, failed: StepFailure, at: int) -> None:
        retry = None if failed.final else self._step_states.terms(step).retry
        seconds = wait_seconds(retry, self._step_states.attempt(step), failed.unswept_type, failed.retry_after)
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
        value = step_states.value(claimed.terms.result_step) if claimed.terms.result_step else None
        if value is not None:
            try:
                result, output, result_warnings = await store_result(context, claimed, self._stop_signal, value)
            except OSError as error:
                verb = "judged" if isinstance(error, ValidatorUnavailableError) else "stored"
                _LOG.exception("The result of run %s could not be %s", claimed.run_id, verb)
                await self._journal.close(
                    RunOutcome(RunStatus.FAILED, INVARIANT_BLOCKED, f"The result could not be {verb}.")
                )
                return
            for message in result_warnings:
                step_states.changes.event("warning", message=message)
            warnings += result_warnings
        if claimed.terms.publish:
            if output is not None:
                step_states.changes.files.append(output)
                output = None
            await self._journal.record(lambda tx, at: promote_outputs(tx, claimed.run_id, self._segment_id, at))
            warnings += await publish(
                context,
                claimed.run_id,
                claimed.terms.publish,
                step_states,
                self._journal.record,
                self._wait_for_publication,
                reasons=claimed.redaction is None,
            )
        await self._journal.complete(result, output, warnings, promoted=bool(claimed.terms.publish))

    async def _wait_for_publication(self, outcome: asyncio.Future[Any], seconds: float) -> None:
        try:
            await self._stop_signal.wait_first({outcome}, seconds)
        except StoppedError:
            # The end of the process alone fails no run whose steps are done: its publications go on at the next start.
            if await self._context.in_thread(self._has_reason_to_stop):
                raise

    def _has_reason_to_stop(self) -> bool:
        run = self._context.database.read(lambda tx: sql.run_of_segment(tx, self._segment_id))
        return reason_to_stop(run, self._context.clock()) is not None

    async def _give_up(self) -> None:
        """Ends every step, and discards the changes that were not recorded yet."""
        await self._kill()
        await self._journal.give_up(self._step_states.take_changes().files)

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
        for task in self._tasks:
            task.cancel()
        outcomes = await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await self._journal.discard([file for one in outcomes if isinstance(one, StepCompletion) for file in one.files])
