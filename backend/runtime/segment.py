"""Executes one segment of a run: takes it, runs its steps as their needs allow, and parks or closes the run.

Nothing is done before what led to it is durable: a step's process starts after its `step.started`, and a step counts
as completed only with its outputs, in one transaction.
"""

import asyncio
import logging
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from backend import json_text
from backend.runs.lifecycle import RunResult, SegmentEndedError, close_run, park_run
from backend.runs.transitions import COMPLETED, FAILED
from backend.runtime import dag, store
from backend.runtime.beginning import Begun, begin
from backend.runtime.board import definition_of
from backend.runtime.endings import ORPHANED, Ending, reason_to_stop
from backend.runtime.inputs import InputError, materialise_all
from backend.runtime.means import Means
from backend.runtime.result import make_result
from backend.runtime.steps import Completed, Failed, StepWork
from backend.storage.database import Tx

_LOG = logging.getLogger(__name__)

# The database may be out of space or away for a while; what stays open after that is orphaned at the next start.
_TRIES_TO_CLOSE: Final = 60
_SECONDS_BETWEEN_TRIES: Final = 1.0

Outcome = Completed | Failed


class _StoppedError(Exception):
    """Somebody asked the segment to end."""


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
        self._stopping: asyncio.Future[Any] = asyncio.ensure_future(stop.wait())
        self._slots: dict[str, asyncio.Future[None]] = {}
        self._beginning: list[str] = []
        self._tasks: dict[asyncio.Task[Outcome], str] = {}
        self._parked = False

    async def run(self) -> None:
        try:
            if await self._copy_inputs():
                await self._execute()
        except _StoppedError:
            await self._kill()
            await self._close_stopped()
        except SegmentEndedError:
            # Whoever closed the run has recorded why.
            await self._kill()
        except Exception:  # noqa: BLE001 - whatever it was, the steps must die and the run must end
            _LOG.exception("Segment %s could not be carried out", self._segment_id)
            await self._kill()
            await self._close_stopped()
        finally:
            self._stopping.cancel()
            if not self._parked:
                await self._means.in_thread(self._remove_folder)

    async def _execute(self) -> None:
        while True:
            plan = self._board.plan()
            self._board.settle(plan)
            failure = self._board.failure(plan)
            if failure is not None:
                await self._kill()
                await self._close(Ending(FAILED, *failure))
                return
            self._board.ask(plan, self._means.clock())
            self._take_slots(plan)
            if not (self._tasks or self._slots or self._beginning):
                await (self._complete() if plan.done else self._park())
                return
            await self._record()
            self._start_steps()
            await self._wait()

    def _take_slots(self, plan: dag.Plan) -> None:
        """Asks for a slot for each step that may begin, and begins those that got theirs."""
        room = self._begun.definition.parallel_steps - len(self._tasks) - len(self._slots)
        new = [step for step in plan.begin if step not in self._slots]
        for step in new[:room]:
            self._slots[step] = self._means.slots.ask(self._begun.key_id)
        for step in [step for step, slot in self._slots.items() if slot.done()]:
            del self._slots[step]
            self._beginning.append(step)
            self._board.begin(step, self._means.clock())

    def _start_steps(self) -> None:
        for step in self._beginning:
            work = self._work_of(step)
            task = asyncio.create_task(work.carry_out(), name=f"{self._begun.run_id}/{step}")
            # Not in the task itself: one that is cancelled before it began runs none of its code.
            task.add_done_callback(lambda _: self._means.slots.release(self._begun.key_id))
            self._tasks[task] = step
        self._beginning.clear()

    def _work_of(self, step: str) -> StepWork:
        begun = self._begun
        return StepWork(
            means=self._means,
            run_id=begun.run_id,
            segment_id=self._segment_id,
            step=definition_of(begun.definition, step),
            attempt=self._board.attempt(step),
            resources=begun.resources,
            parameters=begun.parameters,
            input_text=begun.input_text,
            needs=self._board.needs_of(step),
            inputs=self._inputs_folder(),
        )

    def _inputs_folder(self) -> Path | None:
        given = any(declared.parameter in self._begun.parameters for declared in self._begun.definition.inputs)
        return self._means.inputs_of_run(self._begun.run_id) if given else None

    async def _wait(self) -> None:
        """Waits until a step finishes or gets a slot, and takes in what finished.

        Raises:
            _StoppedError: the segment is to end.
            SegmentEndedError: the run was closed by somebody else.
        """
        waited: list[asyncio.Future[Any]] = [self._stopping, *self._tasks, *self._slots.values()]
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if self._stopping.done():
            raise _StoppedError
        for task in [task for task in self._tasks if task.done()]:
            step = self._tasks.pop(task)
            at = self._means.clock()
            match task.result():
                case Completed(value, outputs):
                    self._board.complete(step, value, outputs, at)
                case Failed(failure_type, message):
                    self._board.fail(step, failure_type, message, at)

    async def _copy_inputs(self) -> bool:
        """Whether the run goes on: it is closed where its inputs cannot be copied in."""
        folder = self._inputs_folder()
        if folder is None or not self._begun.first:
            return True
        begun = self._begun
        halt = threading.Event()
        copying: asyncio.Future[Any] = self._means.in_thread(
            lambda: materialise_all(begun.definition.inputs, begun.parameters, begun.resources, folder, halt)
        )
        await asyncio.wait({copying, self._stopping}, return_when=asyncio.FIRST_COMPLETED)
        if self._stopping.done():
            halt.set()
            # The run ends now; the copying thread notices soon, and what it still wrote goes after it.
            copying.add_done_callback(lambda done: (done.exception(), self._means.in_thread(self._remove_folder)))
            raise _StoppedError
        try:
            manifest = copying.result()
        except InputError as error:
            await self._close(Ending(FAILED, "input_materialisation_failed", str(error)))
            return False
        text = json_text.write(manifest)
        self._board.changes.event(
            "inputs.materialised",
            objects=sum(entry["objects"] for entry in manifest),
            bytes=sum(entry["bytes"] for entry in manifest),
        )
        await self._record(lambda tx, _: store.set_manifest(tx, begun.run_id, text))
        return True

    async def _park(self) -> None:
        self._parked = True
        await self._record(lambda tx, at: park_run(tx, self._segment_id, at))

    async def _complete(self) -> None:
        """Stores the result, tells what optional stages did not land, and closes the run as completed."""
        begun, board, means = self._begun, self._board, self._means
        warnings = board.warnings()
        result = RunResult()
        value = board.value(begun.definition.result_step) if begun.definition.result_step else None
        if value is not None:
            schema = begun.definition.result_schema
            result, output = await means.in_thread(lambda: make_result(means.objects, begun.run_id, value, schema))
            board.changes.outputs.append(output)
        for graph in begun.definition.publish:
            warning = f"knowledge graph '{graph}': publishing is not part of this release"
            board.changes.event("publish.started", knowledge_graph=graph)
            board.changes.event("warning", message=warning)
            warnings.append(warning)
        await self._record(
            lambda tx, at: close_run(
                tx, begun.run_id, COMPLETED, at, segment_id=self._segment_id, result=result, warnings=warnings
            )
        )

    async def _close(self, ending: Ending) -> None:
        await self._record(lambda tx, at: ending.close(tx, self._begun.run_id, at, self._segment_id, self._means.owner))

    async def _close_stopped(self) -> None:
        """Closes the run for the reason that its row gives, else as orphaned; what was not recorded yet is given up."""
        at = self._means.clock()

        def work(tx: Tx) -> None:
            ending = reason_to_stop(store.run_of_segment(tx, self._segment_id), at) or ORPHANED
            ending.close(tx, self._begun.run_id, at, self._segment_id, self._means.owner)

        for _ in range(_TRIES_TO_CLOSE):
            try:
                await self._means.in_thread(lambda: self._means.database.write(work))
            except Exception:  # noqa: BLE001 - whatever keeps it from being recorded may pass
                _LOG.exception("Run %s could not be closed yet", self._begun.run_id)
                await asyncio.sleep(_SECONDS_BETWEEN_TRIES)
            else:
                return

    async def _record(self, last: Callable[[Tx, int], object] | None = None) -> None:
        """Makes durable what has been gathered, with `last` behind it in the same transaction."""
        changes = self._board.take_changes()
        if not changes and last is None:
            return
        at = self._means.clock()

        def work(tx: Tx) -> None:
            changes.write(tx, self._begun.run_id, self._segment_id, at)
            if last is not None:
                last(tx, at)

        await self._means.in_thread(lambda: self._means.database.write(work))

    async def _kill(self) -> None:
        """Ends every step, and gives back every slot; on return no process of the segment is left."""
        for slot in self._slots.values():
            if not slot.cancel():
                self._means.slots.release(self._begun.key_id)
        for _ in self._beginning:
            self._means.slots.release(self._begun.key_id)
        self._slots.clear()
        self._beginning.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    def _remove_folder(self) -> None:
        shutil.rmtree(self._means.folder_of_run(self._begun.run_id), ignore_errors=True)
