"""Executes one segment of a run: takes it, runs its steps as their needs allow, and parks or closes the run.

Nothing is done before what led to it is durable: a step's process starts after its `step.started`, and a step counts
as completed only with its outputs, in one transaction.
"""

import asyncio
import logging
from functools import partial
from typing import Any

from backend.runs.failure_codes import INVARIANT_BLOCKED
from backend.runs.lifecycle import RunResult, SegmentEndedError, complete_run, park_run, promote_outputs
from backend.runs.status import FAILED
from backend.runtime.execution import dag, sql
from backend.runtime.execution.claim import Begun, begin
from backend.runtime.execution.limits import memory_of
from backend.runtime.execution.outcomes import Ending, reason_to_stop
from backend.runtime.execution.preparation import Seen, inputs_folder, prepare, remove_folder
from backend.runtime.execution.result_storing import store_result
from backend.runtime.execution.segment_context import Means
from backend.runtime.execution.segment_journal import Recording
from backend.runtime.execution.step_files import drop_files
from backend.runtime.execution.step_retry import wait_seconds
from backend.runtime.execution.steps import Completed, Failed, StepWork
from backend.runtime.execution.stopping import StoppedError, Stopping
from backend.runtime.publishing.stage import publish
from backend.schemas.judge import JudgeUnavailableError

_LOG = logging.getLogger(__name__)

Outcome = Completed | Failed


class Segment:
    """One segment; lives on the engine's loop, and `stop` is called there too."""

    def __init__(self, means: Means, segment_id: str) -> None:
        self._means = means
        self._segment_id = segment_id
        self._stop = asyncio.Event()

    def stop(self) -> None:
        """Has the segment kill its steps and close its run, for the reason that the run's row then gives."""
        self._stop.set()

    async def run(self) -> None:
        """Executes the segment to its end; what goes wrong is logged, and ends a run that has begun as `orphaned`."""
        if self._stop.is_set():
            # It stays queued: what would begin now would only be ended.
            return
        try:
            begun = await self._means.in_thread(lambda: begin(self._means, self._segment_id))
        except Exception:  # noqa: BLE001 - logged; other segments go on
            # It stays queued, and the sweeper's launch time-out fails it.
            _LOG.exception("Segment %s could not begin", self._segment_id)
            return
        if begun is not None:
            await _Execution(self._means, self._segment_id, begun, self._stop).run()


class _Execution:
    """A segment that has begun."""

    def __init__(self, means: Means, segment_id: str, begun: Begun, stop: asyncio.Event) -> None:
        self._means = means
        self._segment_id = segment_id
        self._begun = begun
        self._board = begun.board
        self._recording = Recording(means, segment_id, begun)
        self._stopping = Stopping(stop)
        self._slots: dict[str, asyncio.Future[None]] = {}
        self._holding: set[str] = set()
        self._beginning: list[str] = []
        self._tasks: dict[asyncio.Task[Outcome], str] = {}
        self._backoffs: dict[str, asyncio.Task[None]] = {}
        self._parked = False
        self._seen = Seen(begun.parameters, begun.input_text)

    async def run(self) -> None:
        try:
            seen = await prepare(self._means, self._begun, self._recording, self._stopping)
            if seen is not None:
                self._seen = seen
                await self._execute()
        except StoppedError:
            await self._give_up()
            await self._recording.close_stopped()
        except SegmentEndedError:
            # Whoever closed the run has recorded why.
            await self._give_up()
        except Exception:  # noqa: BLE001 - whatever it was, the steps must die and the run must end
            _LOG.exception("Segment %s could not be carried out", self._segment_id)
            await self._give_up()
            await self._recording.close_stopped()
        finally:
            self._stopping.forget()
            if not self._parked:
                await self._means.in_slow_thread(lambda: remove_folder(self._means, self._begun.run_id))

    async def _execute(self) -> None:
        while True:
            plan = self._board.plan()
            self._board.settle(plan)
            failure = self._board.failure(plan)
            if failure is not None:
                await self._kill()
                await self._recording.close(Ending(FAILED, *failure))
                return
            self._board.ask(plan, self._means.clock())
            self._take_slots(plan)
            if not (self._tasks or self._slots or self._beginning or self._backoffs):
                await (self._complete() if plan.done else self._park())
                return
            await self._recording.record()
            self._start_steps()
            await self._wait()

    def _take_slots(self, plan: dag.Plan) -> None:
        """Asks for a slot for each step that may begin, and begins those that got theirs."""
        room = self._begun.terms.parallel_steps - len(self._tasks) - len(self._slots)
        new = [step for step in plan.begin if step not in self._slots and step not in self._backoffs]
        for step in new[:room]:
            self._slots[step] = self._means.slots.ask(self._begun.key_id, self._memory(step))
        for step in [step for step, slot in self._slots.items() if slot.done()]:
            del self._slots[step]
            self._holding.add(step)
            self._beginning.append(step)
            self._board.begin(step, self._means.clock())

    def _start_steps(self) -> None:
        for step in self._beginning:
            work = self._work_of(step)
            task = asyncio.create_task(work.carry_out(), name=f"{self._begun.run_id}/{step}")
            # Not in the task itself: one that is cancelled before it began runs none of its code.
            task.add_done_callback(partial(self._release, step))
            self._tasks[task] = step
        self._beginning.clear()

    def _memory(self, step: str) -> int:
        """What a step holds beside its slot: nothing where it asks for more than there is, for it will not run."""
        memory_mb = memory_of(self._board.terms(step))
        return memory_mb if memory_mb <= self._means.slots.memory_mb else 0

    def _release(self, step: str, _: object = None) -> None:
        """Gives a step's slot back, once."""
        if step in self._holding:
            self._holding.remove(step)
            self._means.slots.release(self._begun.key_id, self._memory(step))

    def _work_of(self, step: str) -> StepWork:
        begun = self._begun
        return StepWork(
            means=self._means,
            run_id=begun.run_id,
            key_id=begun.key_id,
            segment_id=self._segment_id,
            step=self._board.terms(step),
            attempt=self._board.attempt(step),
            parameters=self._seen.parameters,
            input_text=self._seen.input_text,
            redaction=begun.redaction,
            needs=self._board.needs_of(step),
            inputs=inputs_folder(self._means, begun),
            keep_files=any(step in other.needs for other in begun.terms.steps),
            on_executed=partial(self._release, step),
        )

    async def _wait(self) -> None:
        """Waits until a step finishes, gets a slot or may be tried again, and takes in what finished.

        Raises:
            StoppedError: the segment is to end.
            SegmentEndedError: the run was closed by somebody else.
        """
        await self._stopping.or_first({*self._tasks, *self._slots.values(), *self._backoffs.values()})
        for step in [step for step, backoff in self._backoffs.items() if backoff.done()]:
            del self._backoffs[step]
        for task in [task for task in self._tasks if task.done()]:
            step = self._tasks.pop(task)
            at = self._means.clock()
            match task.result():
                case Completed(value, outputs, redacted, warnings):
                    self._board.complete(step, value, outputs, at, warnings)
                    self._board.changes.redacted += redacted
                case Failed() as failed:
                    self._board.changes.redacted += failed.redacted
                    self._take_failure(step, failed, at)
        for warning in () if self._begun.redaction is None else self._begun.redaction.take_warnings():
            self._board.warn(warning)

    def _take_failure(self, step: str, failed: Failed, at: int) -> None:
        retry = None if failed.final else self._board.terms(step).retry
        seconds = wait_seconds(retry, self._board.attempt(step), failed.retry_after)
        if seconds is None:
            self._board.fail(step, failed.type, failed.message, at)
            return
        self._board.retry(step, failed.type, failed.message, at + round(seconds * 1000))
        self._backoffs[step] = asyncio.create_task(asyncio.sleep(seconds))

    async def _park(self) -> None:
        self._parked = True
        await self._means.in_slow_thread(lambda: drop_files(self._means, self._begun.run_id))
        await self._recording.record(lambda tx, at: park_run(tx, self._segment_id, at))

    async def _complete(self) -> None:
        """Stores the result, tells what optional stages did not land, and closes the run as completed."""
        begun, board, means = self._begun, self._board, self._means
        warnings = board.warnings()
        result = RunResult()
        value = board.value(begun.terms.result_step) if begun.terms.result_step else None
        if value is not None:
            try:
                result, output, of_result = await store_result(means, begun, self._stopping, value)
            except OSError as error:
                verb = "judged" if isinstance(error, JudgeUnavailableError) else "stored"
                _LOG.exception("The result of run %s could not be %s", begun.run_id, verb)
                await self._recording.close(Ending(FAILED, INVARIANT_BLOCKED, f"The result could not be {verb}."))
                return
            board.changes.outputs.append(output)
            for message in of_result:
                board.changes.event("warning", message=message)
            warnings += of_result
        if begun.terms.publish:
            await self._recording.record(lambda tx, at: promote_outputs(tx, begun.run_id, self._segment_id, at))
            warnings += await publish(
                means,
                begun.run_id,
                begun.terms.publish,
                board,
                self._recording.record,
                self._wait_for_publication,
                reasons=begun.redaction is None,
            )
        promoted = bool(begun.terms.publish)
        await self._recording.record(
            lambda tx, at: complete_run(tx, self._segment_id, at, result, warnings, promoted=promoted)
        )

    async def _wait_for_publication(self, outcome: asyncio.Future[Any], seconds: float) -> None:
        try:
            await self._stopping.or_first({outcome}, seconds)
        except StoppedError:
            # The end of the process alone fails no run whose steps are done: it is late, and goes on at the next start.
            if await self._means.in_thread(self._has_reason_to_stop):
                raise

    def _has_reason_to_stop(self) -> bool:
        run = self._means.database.read(lambda tx: sql.run_of_segment(tx, self._segment_id))
        return reason_to_stop(run, self._means.clock()) is not None

    async def _give_up(self) -> None:
        """Ends every step, and forgets what was not recorded yet."""
        await self._kill()
        await self._recording.give_up(self._board.take_changes().outputs)

    async def _kill(self) -> None:
        """Ends every step, and gives back every slot; on return no process of the segment is left."""
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
        await self._recording.discard(
            [output for one in outcomes if isinstance(one, Completed) for output in one.outputs]
        )
