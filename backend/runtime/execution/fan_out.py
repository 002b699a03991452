"""Executes a step once for each item of a list: its items, their attempts and retries, and the list of their values.

Items and values rest in the table `step_items`. In memory are the items that execute, and at the end the step's value.
Each change of items follows the rule of steps: files are stored before rows name them, and one transaction records
the end of an attempt with its event.
"""

import asyncio
import logging
import shutil
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from backend.common import json_text
from backend.common.clock import to_text
from backend.common.json_text import JsonValue
from backend.common.states import StepStatus
from backend.resources.redaction.confined_redactor import RedactionError
from backend.resources.schemas.expression_scope import ExpressionError, Scope, Values
from backend.runtime.execution import fan_out_sql, retries
from backend.runtime.execution.claim import slot_memory
from backend.runtime.execution.fan_out_sql import EndedItem, ItemCounts
from backend.runtime.execution.item_bounds import ItemBounds, StepItem
from backend.runtime.execution.reuse import copied_files, files_of_ended
from backend.runtime.execution.run_capacity import RunCapacity
from backend.runtime.execution.segment_context import SegmentContext
from backend.runtime.execution.steps import StepCompletion, StepFailure, StepWork
from backend.runtime.execution.traced_work import traced_step
from backend.runtime.promotion import discard, skipped_warning
from backend.runtime.run_redaction import RunRedaction
from backend.services.outputs.sql import NewOutput, StepFile, add_outputs, add_shared_files
from backend.services.runs import lifecycle_sql, redaction_manifest_sql
from backend.services.runs import sql as runs_sql
from backend.services.runs.change_records import NewEvent
from backend.services.runs.lifecycle import SegmentEndedError, append_events
from backend.services.runs.redaction_manifest_sql import STEPS, StageCounts
from backend.services.workflows.resolved_workflow import AGENT, FanOut, ResolvedStep
from backend.storage.database import OutcomeUnknownError, Tx
from backend.storage.tables.files import OutputRow, SharedFileRow

_LOG = logging.getLogger(__name__)

INVALID_ITEMS: Final = "InvalidItems"
"""Type of the failure of a step whose list of items is none, or longer or larger than allowed."""

_NO_ITEMS: Final = ItemCounts(0, 0, 0)
_ROWS_AT_ONCE: Final = 100
_BYTES_AT_ONCE: Final = 2**20

WorkOfItem = Callable[[StepItem, int, Callable[[], None]], StepWork]
"""Returns the work of one attempt of an item, by the item, the attempt from 1, and what is called as `on_executed`."""


@dataclass(frozen=True, slots=True)
class FanOutCompletion:
    """The list of all values as JSON text; files and outputs are counted, for their rows are written already."""

    value: str
    files: int
    outputs: int
    warnings: list[str]


@dataclass(slots=True)
class FanOutWork:
    """The fan-out of one step.

    `needs` are the values of the steps that it needs, as JSON texts. `work_of` makes the work of an item, which takes
    a slot where an agent does it. `on_counts` is told how many items have ended. `ended_run` is the run whose completed
    items are reused where they are unchanged.
    """

    context: SegmentContext
    run_id: str
    key_id: str
    segment_id: str
    step: ResolvedStep
    attempt: int
    parameters: Mapping[str, JsonValue]
    declared: Sequence[Mapping[str, JsonValue]]
    needs: Mapping[str, str]
    redaction: RunRedaction | None
    capacity: RunCapacity
    parallel_steps: int
    work_of: WorkOfItem
    on_counts: Callable[[ItemCounts], None]
    ended_run: str | None
    _attempts: Counter[int] = field(default_factory=Counter)
    _ready: deque[int] = field(default_factory=deque)
    _tasks: dict[asyncio.Task[StepCompletion | StepFailure], int] = field(default_factory=dict)
    _backoffs: dict[asyncio.Task[None], int] = field(default_factory=dict)
    _counts: ItemCounts = _NO_ITEMS
    _value_bytes: int = 1
    _files: int = 0
    _outputs: int = 0
    _reused_files: bool = False
    _skipped: Counter[str] = field(default_factory=Counter)
    _bounds: ItemBounds | None = None

    async def run(self) -> FanOutCompletion | StepFailure:
        """Executes all items; on return, and when cancelled, no process of an item is left.

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
            items = await self._items()
        except ExpressionError as error:
            return await self._swept(StepFailure(INVALID_ITEMS, str(error), final=True))
        self._counts = ItemCounts(len(items), 0, 0)
        self._bounds = ItemBounds(self.context.step_data, self.context.output_limits, len(items))
        await self._store(items)
        del items
        self._ready.extend(await self._left_to_execute())
        failure = await self._execute()
        if failure is not None:
            return failure
        if self._value_bytes > self._most_bytes:
            return self._too_large(self._counts.total - 1)
        return await self._completion()

    @property
    def _fan_out(self) -> FanOut:
        assert self.step.fan_out is not None
        return self.step.fan_out

    @property
    def _most_bytes(self) -> int:
        return self.context.step_data.result_bytes

    async def _items(self) -> list[str]:
        """Returns the items as JSON texts; raises ExpressionError."""
        run = await self.context.read(lambda tx: runs_sql.run(tx, self.run_id, None))
        assert run is not None
        scope = Scope(
            parameters={str(one["name"]): str(one["type"]) for one in self.declared},
            nullable=[],
            needs=list(self.step.needs),
            item=False,
        )
        values = Values(
            parameters=self.parameters,
            needs={},
            run={
                "run_id": run.run_id,
                "created_at": to_text(run.created_at),
                "triggered_by": run.triggered_by,
                "client_reference": run.client_reference,
                "labels": json_text.parse(run.labels),
                "version": run.version,
            },
            item=None,
            item_index=0,
        )
        return await retries.RESOURCE.run(
            lambda: self.context.in_halting_thread(
                lambda halt: self.context.schemas.items(
                    self._fan_out.items,
                    scope,
                    values,
                    self.needs,
                    most=self._fan_out.max_items,
                    most_bytes=self._most_bytes,
                    owner=self.key_id,
                    halt=halt,
                )
            ),
            f"Listing the items of step {self.step.step} of run {self.run_id}",
        )

    async def _store(self, items: Sequence[str]) -> None:
        """Writes the items, a bounded part at a time."""
        first = 0
        while first < len(items):
            end, size = first, 0
            while end < len(items) and end - first < _ROWS_AT_ONCE and (end == first or size < _BYTES_AT_ONCE):
                size += len(items[end])
                end += 1
            part = items[first:end]
            await self._write(
                partial(fan_out_sql.add_items, run_id=self.run_id, step=self.step.step, first=first, items=part)
            )
            first = end
        await self._write(lambda tx: fan_out_sql.count_items(tx, self.run_id, self.step.step, self._counts))
        self.on_counts(self._counts)

    async def _left_to_execute(self) -> list[int]:
        """Reuses the unchanged items of the ended run; returns the indexes of the others."""
        ended, step = self.ended_run, self.step.step
        total = range(self._counts.total)
        if ended is None:
            return list(total)
        found = await self.context.read(lambda tx: fan_out_sql.reusable_items(tx, self.run_id, step, ended))
        stored: dict[int, list[OutputRow | SharedFileRow]] = {}
        for file in await self.context.read(lambda tx: files_of_ended(tx, ended).get(step, [])):
            stored.setdefault(int(file.path.split("/")[1]), []).append(file)
        found = [row for row in found if row.files_count == len(stored.get(row.item_index, ()))]
        reused: set[int] = set()
        for first in range(0, len(found), _ROWS_AT_ONCE):
            reused |= await self._reuse(ended, found[first : first + _ROWS_AT_ONCE], stored)
        return [index for index in total if index not in reused]

    async def _reuse(
        self,
        ended: str,
        rows: Sequence[fan_out_sql.ReusableItemRow],
        stored: Mapping[int, Sequence[OutputRow | SharedFileRow]],
    ) -> set[int]:
        """Completes items with the values and copies of the files of an ended run; returns their indexes."""
        reused: list[fan_out_sql.ReusableItemRow] = []
        copies: list[StepFile] = []
        events: list[NewEvent] = []
        try:
            for row in rows:
                files = stored.get(row.item_index, ())
                try:
                    left = await self._copied(files) if files else []
                except (KeyError, EOFError):
                    # A file was removed since the start: the item is executed.
                    continue
                copies += left
                reused.append(row)
                outputs = sum(isinstance(file, NewOutput) for file in left)
                self._add(row.value_bytes, left)
                data = {"item_index": row.item_index, "attempt": 0, "outputs": outputs}
                events.append(NewEvent("step.item_completed", self.step.step, data))
        except BaseException:
            await self._discard(copies)
            raise
        if not reused:
            return set()
        self._reused_files = self._reused_files or bool(copies)
        self._counts = self._counts._replace(completed=self._counts.completed + len(reused))
        indexes = [row.item_index for row in reused]
        counts, at = self._counts, self.context.clock()

        def work(tx: Tx) -> None:
            append_events(tx, self.segment_id, at, events)
            fan_out_sql.reuse_items(tx, self.run_id, self.step.step, ended, indexes)
            fan_out_sql.count_items(tx, self.run_id, self.step.step, counts)
            _add_files(tx, copies, at)

        await self._write(work, copies)
        self.on_counts(counts)
        return set(indexes)

    async def _copied(self, files: Sequence[OutputRow | SharedFileRow]) -> list[StepFile]:
        context = self.context
        return await retries.RESOURCE.run(
            lambda: context.in_halting_thread(
                lambda halt: copied_files(context, self.run_id, files, halt),
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
        """Executes one attempt of an item, once the run and the key have room for it."""
        async with self.capacity.item():
            release = await self._take_slot() if self.step.kind == AGENT else _nothing
            try:
                step = self.step.step
                text = await self.context.read(lambda tx: fan_out_sql.item(tx, self.run_id, step, index))
                assert self._bounds is not None
                item = StepItem(index, json_text.shared(text), self._bounds)
                self._attempts[index] += 1
                return await traced_step(self.work_of(item, self._attempts[index], release))
            finally:
                release()

    async def _take_slot(self) -> Callable[[], None]:
        """Waits for a slot; returns what releases it, once."""
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
        """Records ended attempts, and takes up their outcomes; returns the failure of the step, if one fails it."""
        at = self.context.clock()
        events: list[NewEvent] = []
        rows: list[EndedItem] = []
        files: list[StepFile] = []
        redacted: list[StageCounts] = []
        failure: StepFailure | None = None
        for task in tasks:
            outcome = task.result()
            index = self._tasks.pop(task)
            redacted += outcome.redacted
            if isinstance(outcome, StepCompletion):
                size = len(outcome.value.encode())
                if self._value_bytes + size + 1 <= self._most_bytes:
                    rows.append(self._completed(index, outcome, size, events))
                    files += outcome.files
                    continue
                await self._discard(outcome.files)
                outcome = self._too_large(index)
                failure = failure or outcome
            seconds = None
            if not outcome.final:
                seconds = retries.wait_seconds(
                    self.step.retry, self._attempts[index], outcome.unswept_type, outcome.retry_after
                )
            events.append(self._failed_event(index, outcome, None if seconds is None else at + round(seconds * 1000)))
            if seconds is not None:
                rows.append(EndedItem(index, StepStatus.PENDING, self._attempts[index]))
                self._backoffs[asyncio.create_task(asyncio.sleep(seconds))] = index
                continue
            row = self._failed(index, outcome)
            rows.append(row)
            if not self._fan_out.collect:
                named = f"Item {index}: {outcome.message}"
                failure = failure or StepFailure(outcome.type, named, final=True)
            elif self._value_bytes > self._most_bytes:
                failure = failure or self._too_large(index)
        counts = self._counts

        def work(tx: Tx) -> None:
            append_events(tx, self.segment_id, at, events)
            fan_out_sql.end_items(tx, self.run_id, self.step.step, rows, counts)
            _add_files(tx, files, at)
            for found in redacted:
                redaction_manifest_sql.add_counts(tx, self.run_id, found)

        await self._write(work, files)
        self.on_counts(counts)
        return failure

    def _completed(self, index: int, outcome: StepCompletion, size: int, events: list[NewEvent]) -> EndedItem:
        step = self.step.step
        self._add(size, outcome.files)
        self._skipped.update(outcome.skipped)
        self._counts = self._counts._replace(completed=self._counts.completed + 1)
        if outcome.swept is not None:
            swept = {"stage": STEPS, "files": outcome.swept.files, "values": outcome.swept.values}
            events.append(NewEvent("redaction.completed", step, swept))
        outputs = sum(isinstance(file, NewOutput) for file in outcome.files)
        data = {"item_index": index, "attempt": self._attempts[index], "outputs": outputs}
        events.append(NewEvent("step.item_completed", step, data))
        return EndedItem(index, StepStatus.COMPLETED, self._attempts[index], outcome.value, size, len(outcome.files))

    def _failed(self, index: int, outcome: StepFailure) -> EndedItem:
        self._counts = self._counts._replace(failed=self._counts.failed + 1)
        value = json_text.write({"error": {"type": outcome.type, "message": outcome.message}})
        size = len(value.encode())
        self._add(size, ())
        return EndedItem(index, StepStatus.FAILED, self._attempts[index], value, size, 0)

    def _failed_event(self, index: int, outcome: StepFailure, retry_at: int | None) -> NewEvent:
        data = {
            "item_index": index,
            "type": outcome.type,
            "message": outcome.message,
            "attempt": self._attempts[index],
            "retry_at": None if retry_at is None else to_text(retry_at),
        }
        return NewEvent("step.item_failed", self.step.step, data)

    def _add(self, value_bytes: int, files: Sequence[StepFile]) -> None:
        # With the comma or bracket behind it.
        self._value_bytes += value_bytes + 1
        self._files += len(files)
        self._outputs += sum(isinstance(file, NewOutput) for file in files)

    def _too_large(self, index: int) -> StepFailure:
        message = f"Item {index}: the values of all items are together larger than {self._most_bytes} bytes of JSON"
        return StepFailure("InvalidResult", message, final=True)

    async def _completion(self) -> FanOutCompletion:
        """Puts the list together from the table, in the order of the items."""
        values: list[str] = []
        after = -1
        while True:
            rows = await self.context.in_thread(partial(self._values_after, after))
            if not rows:
                break
            values += [row.value for row in rows]
            after = rows[-1].item_index
        step, warnings = self.step.step, []
        if self._skipped:
            warnings.append(skipped_warning(step, self._skipped, self.context.output_limits))
        if self._reused_files:
            # Only executed items left theirs on this disk; later steps get all of them from the objects.
            folder = self.context.files_of_run(self.run_id) / step
            await self.context.in_slow_thread(lambda: shutil.rmtree(folder, ignore_errors=True))
        return FanOutCompletion(f"[{','.join(values)}]", self._files, self._outputs, warnings)

    def _values_after(self, after: int) -> list[fan_out_sql.ValueRow]:
        return retries.DATABASE.run_blocking(
            lambda: self.context.database.read(
                lambda tx: fan_out_sql.values_after(tx, self.run_id, self.step.step, after, _ROWS_AT_ONCE)
            ),
            f"Reading the values of step {self.step.step} of run {self.run_id}",
        )

    async def _swept(self, failure: StepFailure) -> StepFailure:
        """Returns a failure whose message may quote values as people may see it."""
        redaction = self.redaction
        if redaction is None or (stage := redaction.message_stage) is None:
            return failure
        try:
            message, counts = await self.context.in_halting_thread(lambda halt: redaction.value(failure.message, halt))
        except RedactionError as error:
            why = f"why the step has no items could not be swept for personal data: {error}"
            return StepFailure("RedactionFailed", why, final=True)
        return StepFailure(failure.type, str(message), final=True, redacted=[StageCounts(stage, counts)])

    async def _write(self, work: Callable[[Tx], object], files: Sequence[StepFile] = ()) -> None:
        """Makes a change of the run while this process executes its segment; a cancellation waits until it is made.

        Raises:
            SegmentEndedError: the segment does not run; as any other failure, it discards the files.
        """

        def owned(tx: Tx) -> None:
            if not lifecycle_sql.owns(tx, self.segment_id, self.context.owner):
                raise SegmentEndedError(self.segment_id)
            work(tx)

        async def write() -> None:
            try:
                await retries.DATABASE.run(
                    lambda: self.context.write_run(self.run_id, self.key_id, owned),
                    f"A change of the items of run {self.run_id}",
                )
            except OutcomeUnknownError:
                # A row may name the files; those that none names go with the run's final sweep or erasure.
                raise
            except BaseException:
                await self._discard(files)
                raise

        writing = asyncio.ensure_future(write())
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            await asyncio.wait({writing})
            if not writing.cancelled():
                writing.exception()
            raise

    async def _discard(self, files: Sequence[StepFile]) -> None:
        if files:
            await self.context.in_slow_thread(lambda: discard(self.context.objects, files))

    async def _end_items(self) -> None:
        """Ends every item that executes or waits, and records how many progress events were dropped."""
        for one in (*self._tasks, *self._backoffs):
            one.cancel()
        outcomes = await asyncio.gather(*self._tasks, *self._backoffs, return_exceptions=True)
        self._tasks.clear()
        self._backoffs.clear()
        await self._discard([file for one in outcomes if isinstance(one, StepCompletion) for file in one.files])
        data = None if self._bounds is None else self._bounds.dropped_warning()
        if data is None:
            return
        at, event = self.context.clock(), NewEvent("warning", self.step.step, {**data, "attempt": self.attempt})
        try:
            await self._write(lambda tx: append_events(tx, self.segment_id, at, [event]))
        except SegmentEndedError:
            # The run was closed meanwhile, and takes no more events.
            return
        except Exception:  # noqa: BLE001 - the outcome of the step counts all the same
            _LOG.exception("Dropped events of step %s of run %s could not be recorded", self.step.step, self.run_id)


def _nothing() -> None:
    """Releases nothing: the work of the item takes no slot."""


def _add_files(tx: Tx, files: Sequence[StepFile], at: int) -> None:
    add_outputs(tx, [file for file in files if isinstance(file, NewOutput)], at)
    add_shared_files(tx, [file for file in files if isinstance(file, SharedFileRow)])
