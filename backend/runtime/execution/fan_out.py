"""Executes a step once for each item of a list: lists the items, executes and retries them, and lists their values.

Items and values are stored in the table `step_items`; memory holds the executing items, and at the end the whole list.
"""

import asyncio
import logging
import shutil
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

from backend.common import json_text
from backend.resources.schemas.expression_scope import ExpressionError
from backend.runtime.execution import fan_out_sql, retries
from backend.runtime.execution.claim import slot_memory
from backend.runtime.execution.expressions import sweep_failure
from backend.runtime.execution.fan_out_sql import ItemCounts, ReusableItemRow
from backend.runtime.execution.item_bounds import ItemBounds, StepItem
from backend.runtime.execution.item_journal import ROWS_AT_ONCE, EndedAttempts, ItemJournal
from backend.runtime.execution.reuse import copy_files, files_of_ended
from backend.runtime.execution.run_capacity import RunCapacity
from backend.runtime.execution.segment_context import SegmentContext
from backend.runtime.execution.step_outcomes import StepCompletion, StepFailure, StepPause
from backend.runtime.execution.traced_work import Work, traced_step
from backend.runtime.promotion import discard, skipped_warning
from backend.runtime.run_redaction import RunRedaction
from backend.services.model_usage.sql import AttemptUsage
from backend.services.outputs.sql import StepFile
from backend.services.runs.change_records import NewEvent
from backend.services.runs.lifecycle import SegmentEndedError, append_events
from backend.services.workflows.resolved_workflow import AGENT, FanOut, ResolvedStep
from backend.storage.database import DatabaseUnavailableError, Tx
from backend.storage.tables.files import OutputRow, SharedFileRow

_LOG = logging.getLogger(__name__)

INVALID_ITEMS: Final = "InvalidItems"
"""Failure type of a step whose `items` are no list, or a list longer or larger than allowed."""


T = TypeVar("T")

WorkOfItem = Callable[[StepItem, int, Callable[[], None]], Work[StepCompletion | StepFailure | StepPause]]
"""Makes the work of one attempt, from an item, the attempt's number from 1, and the callback `on_executed`."""


@dataclass(frozen=True, slots=True)
class FanOutCompletion:
    """The list of all values as JSON text, and the numbers of files and outputs, whose rows are written already."""

    value: str
    files: int
    outputs: int
    warnings: list[str]


@dataclass(slots=True)
class FanOutWork:
    """The fan-out of one step.

    `list_items` returns the items as JSON texts, within a total of bytes. `work_of` makes the work of an item, which
    takes a slot if an agent does it. `on_counts` gets the numbers of items that have ended. `ended_run`
    is the run whose completed items are reused where they are unchanged. `on_lost_usage` is as in `StepWork`.
    """

    context: SegmentContext
    run_id: str
    key_id: str
    segment_id: str
    step: ResolvedStep
    attempt: int
    list_items: Callable[[int], Awaitable[list[str]]]
    redaction: RunRedaction | None
    capacity: RunCapacity
    parallel_steps: int
    work_of: WorkOfItem
    on_counts: Callable[[ItemCounts], None]
    ended_run: str | None
    on_lost_usage: Callable[[AttemptUsage], None]
    _attempts: Counter[int] = field(default_factory=Counter)
    _ready: deque[int] = field(default_factory=deque)
    _tasks: dict[asyncio.Task[StepCompletion | StepFailure], int] = field(default_factory=dict)
    _backoffs: dict[asyncio.Task[None], int] = field(default_factory=dict)
    _reused_files: bool = False
    _bounds: ItemBounds | None = None
    _journal: ItemJournal = field(init=False)

    def __post_init__(self) -> None:
        self._journal = ItemJournal(
            self.context, self.run_id, self.key_id, self.segment_id, self.step.step, self.on_counts
        )

    async def run(self) -> FanOutCompletion | StepFailure:
        """Executes all items; on return or cancellation, all processes of items have ended.

        Raises:
            SegmentEndedError: the run was closed meanwhile.
        """
        try:
            return await self._run()
        except SegmentEndedError:
            raise
        except Exception:  # noqa: BLE001 - only this step fails, whatever the cause
            _LOG.exception("Step %s of run %s failed unexpectedly", self.step.step, self.run_id)
            return StepFailure("InternalError", "the runtime could not carry out the step", final=True)
        finally:
            await self._end_items()

    async def _run(self) -> FanOutCompletion | StepFailure:
        try:
            items = await self.list_items(self._most_bytes)
        except ExpressionError as error:
            failed = StepFailure(INVALID_ITEMS, str(error), final=True)
            return await sweep_failure(self.context, self.redaction, failed)
        self._bounds = ItemBounds(self.context.step_data, self.context.output_limits, len(items))
        await self._journal.store(items)
        del items
        self._ready.extend(await self._left_to_execute())
        failure = await self._execute()
        if failure is not None:
            return failure
        if self._journal.value_bytes > self._most_bytes:
            return self._too_large(self._journal.counts.total - 1)
        return await self._completion()

    @property
    def _fan_out(self) -> FanOut:
        assert self.step.fan_out is not None
        return self.step.fan_out

    @property
    def _most_bytes(self) -> int:
        return self.context.step_data.result_bytes

    async def _left_to_execute(self) -> list[int]:
        """Reuses the unchanged items of the ended run; returns the indexes of the others."""
        ended, step = self.ended_run, self.step.step
        total = range(self._journal.counts.total)
        if ended is None:
            return list(total)

        def read(tx: Tx) -> tuple[list[ReusableItemRow], Sequence[OutputRow | SharedFileRow]]:
            return fan_out_sql.reusable_items(tx, self.run_id, step, ended), files_of_ended(tx, ended).get(step, [])

        found, files = await self._read(read, f"Reading the items of run {ended}")
        stored: dict[int, list[OutputRow | SharedFileRow]] = {}
        for file in files:
            stored.setdefault(int(file.path.split("/")[1]), []).append(file)
        found = [row for row in found if row.files_count == len(stored.get(row.item_index, ()))]
        reused: set[int] = set()
        for first in range(0, len(found), ROWS_AT_ONCE):
            reused |= await self._reuse(ended, found[first : first + ROWS_AT_ONCE], stored)
        return [index for index in total if index not in reused]

    async def _reuse(
        self, ended: str, rows: Sequence[ReusableItemRow], stored: Mapping[int, Sequence[OutputRow | SharedFileRow]]
    ) -> set[int]:
        """Completes items with the values and copies of the files of an ended run; returns their indexes."""
        reused: list[tuple[ReusableItemRow, list[StepFile]]] = []
        try:
            for row in rows:
                files = stored.get(row.item_index, ())
                try:
                    reused.append((row, await self._copy_files(files) if files else []))
                except (KeyError, EOFError):
                    # A file was removed since the start: the item is executed.
                    continue
        except BaseException:
            await self._journal.discard([copy for _, copies in reused for copy in copies])
            raise
        if reused:
            self._reused_files = self._reused_files or any(copies for _, copies in reused)
            await self._journal.record_reused(ended, reused)
        return {row.item_index for row, _ in reused}

    async def _copy_files(self, files: Sequence[OutputRow | SharedFileRow]) -> list[StepFile]:
        context = self.context
        return await retries.RESOURCE.run(
            lambda: context.in_cancellable_thread(
                lambda halt: copy_files(context, self.run_id, files, halt),
                undo=lambda copies: discard(context.objects, copies),
            ),
            f"Copying the files of items of step {self.step.step} for run {self.run_id}",
        )

    async def _execute(self) -> StepFailure | None:
        """Executes the items that are ready, and retries them; returns the failure of the step, if it failed."""
        most = min(self._fan_out.max_parallel or self.parallel_steps, self.parallel_steps)
        while True:
            while self._ready and len(self._tasks) < most:
                index = self._ready.popleft()
                name = f"{self.run_id}/{self.step.step}/{index}"
                self._tasks[asyncio.create_task(self._attempt_item(index), name=name)] = index
            if not (self._tasks or self._backoffs):
                return None
            await asyncio.wait({*self._tasks, *self._backoffs}, return_when=asyncio.FIRST_COMPLETED)
            for backoff in [backoff for backoff in self._backoffs if backoff.done()]:
                self._ready.append(self._backoffs.pop(backoff))
            ended = [task for task in self._tasks if task.done()]
            if ended and (failure := await self._record(ended)) is not None:
                return failure

    async def _attempt_item(self, index: int) -> StepCompletion | StepFailure:
        """Executes one attempt of an item, once the run has capacity and the key has a slot."""
        async with self.capacity.item():
            release = await self._take_slot() if self.step.kind == AGENT else _nothing
            try:
                step = self.step.step
                try:
                    text = await self._read(
                        lambda tx: fan_out_sql.item(tx, self.run_id, step, index), "Reading an item"
                    )
                except DatabaseUnavailableError:
                    self._attempts[index] += 1
                    return StepFailure("InternalError", "the item could not be read")
                assert self._bounds is not None
                item = StepItem(index, json_text.shared(text), self._bounds)
                self._attempts[index] += 1
                outcome = await traced_step(self.work_of(item, self._attempts[index], release))
                assert not isinstance(outcome, StepPause), "items ask nobody"
                return outcome
            finally:
                release()

    async def _read(self, work: Callable[[Tx], T], what: str) -> T:
        """Reads in a thread, with retries while the database is unavailable."""
        database = self.context.database
        return await retries.DATABASE.run(
            lambda: self.context.in_thread(lambda: database.snapshot(work)), f"{what} of step {self.step.step}"
        )

    async def _take_slot(self) -> Callable[[], None]:
        """Waits for a slot; returns a function that releases the slot, at most once."""
        slots = self.context.slots
        memory_mb = slot_memory(slots, self.step)
        slot = slots.request(self.key_id, memory_mb)
        try:
            await slot
        except asyncio.CancelledError:
            if slot.done() and not slot.cancelled():
                slots.release(self.key_id, memory_mb)
            raise
        held = [True]

        def release() -> None:
            if held:
                held.clear()
                slots.release(self.key_id, memory_mb)

        return release

    async def _record(self, tasks: Sequence[asyncio.Task[StepCompletion | StepFailure]]) -> StepFailure | None:
        """Records ended attempts, schedules retries; returns the failure of the step if an item fails it."""
        ended, at = EndedAttempts(), self.context.clock()
        failure: StepFailure | None = None
        for task in tasks:
            # An exception ends the whole fan-out and discards all files, so it is raised before any task is removed.
            task.result()
        for task in tasks:
            outcome = task.result()
            index = self._tasks.pop(task)
            attempt = self._attempts[index]
            ended.redacted += outcome.redacted
            if outcome.usage is not None:
                ended.model_usage.append(outcome.usage)
            if isinstance(outcome, StepCompletion):
                if self._journal.fits(len(outcome.value.encode())):
                    self._journal.complete(ended, index, attempt, outcome)
                    continue
                ended.unwanted += outcome.files
                outcome = self._too_large(index)
                failure = failure or outcome
            seconds = None
            if not outcome.final:
                seconds = retries.wait_seconds(self.step.retry, attempt, outcome.unswept_type, outcome.retry_after)
            if seconds is not None:
                self._journal.retry(ended, index, attempt, outcome, at + round(seconds * 1000))
                self._backoffs[asyncio.create_task(asyncio.sleep(seconds))] = index
                continue
            self._journal.fail(ended, index, attempt, outcome)
            if not self._fan_out.collect:
                failure = failure or StepFailure(outcome.type, f"Item {index}: {outcome.message}", final=True)
            elif self._journal.value_bytes > self._most_bytes:
                failure = failure or self._too_large(index)
        try:
            await self._journal.record(ended)
        except BaseException:
            for usage in ended.model_usage:
                self.on_lost_usage(usage)
            raise
        return failure

    def _too_large(self, index: int) -> StepFailure:
        message = f"Item {index}: the values of all items are together larger than {self._most_bytes} bytes of JSON"
        return StepFailure("InvalidResult", message, final=True)

    async def _completion(self) -> FanOutCompletion:
        """Reads the values from the table, and joins them to a list in the order of the items."""
        values: list[str] = []
        after = -1
        while True:
            rows = await self.context.in_thread(partial(self._values_after, after))
            if not rows:
                break
            values += [row.value for row in rows]
            after = rows[-1].item_index
        step, warnings = self.step.step, []
        if self._journal.skipped:
            warnings.append(skipped_warning(step, self._journal.skipped, self.context.output_limits))
        if self._reused_files:
            # Only files of executed items are on this disk; later steps restore those of all items from the objects.
            folder = self.context.files_of_run(self.run_id) / step
            await self.context.in_slow_thread(lambda: shutil.rmtree(folder, ignore_errors=True))
        return FanOutCompletion(f"[{','.join(values)}]", self._journal.files, self._journal.outputs, warnings)

    def _values_after(self, after: int) -> list[fan_out_sql.ValueRow]:
        return retries.DATABASE.run_blocking(
            lambda: self.context.database.read(
                lambda tx: fan_out_sql.values_after(tx, self.run_id, self.step.step, after, ROWS_AT_ONCE)
            ),
            f"Reading the values of step {self.step.step} of run {self.run_id}",
        )

    async def _end_items(self) -> None:
        """Cancels all executing and waiting items, and records the number of dropped progress events."""
        for one in (*self._tasks, *self._backoffs):
            one.cancel()
        outcomes = await asyncio.gather(*self._tasks, *self._backoffs, return_exceptions=True)
        self._tasks.clear()
        self._backoffs.clear()
        for outcome in outcomes:
            if isinstance(outcome, StepCompletion | StepFailure) and outcome.usage is not None:
                self.on_lost_usage(outcome.usage)
        await self._journal.discard([file for one in outcomes if isinstance(one, StepCompletion) for file in one.files])
        data = None if self._bounds is None else self._bounds.dropped_warning()
        if data is None:
            return
        at, event = self.context.clock(), NewEvent("warning", self.step.step, {**data, "attempt": self.attempt})
        try:
            await self._journal.write(lambda tx: append_events(tx, self.segment_id, at, [event]))
        except SegmentEndedError:
            # The run was closed meanwhile, and takes no more events.
            return
        except Exception:  # noqa: BLE001 - the outcome of the step counts all the same
            _LOG.exception("Dropped events of step %s of run %s could not be recorded", self.step.step, self.run_id)


def _nothing() -> None:
    """Does nothing: stands in for the release of a slot where the item takes none."""
