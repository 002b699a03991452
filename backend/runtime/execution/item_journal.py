"""Records the items of one fan-out as they end: their rows and files with their events, each change in one transaction.

Files are stored before rows name them; after a failed change its files are removed.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from backend.common import json_text
from backend.common.clock import to_text
from backend.common.states import StepStatus
from backend.runtime.execution import fan_out_sql, retries
from backend.runtime.execution.fan_out_sql import EndedItem, ItemCounts, ReusableItemRow
from backend.runtime.execution.segment_context import SegmentContext, run_shielded
from backend.runtime.execution.step_outcomes import StepCompletion, StepFailure
from backend.runtime.promotion import discard
from backend.services.model_usage import sql as model_usage_sql
from backend.services.model_usage.sql import AttemptUsage
from backend.services.outputs.sql import NewOutput, StepFile, add_outputs, add_shared_files
from backend.services.runs import lifecycle_sql, redaction_manifest_sql
from backend.services.runs.change_records import NewEvent
from backend.services.runs.lifecycle import SegmentEndedError, append_events
from backend.services.runs.redaction_manifest_sql import STEPS, StageCounts
from backend.storage.database import OutcomeUnknownError, Tx
from backend.storage.tables.files import SharedFileRow

ROWS_AT_ONCE: Final = 100
_BYTES_AT_ONCE: Final = 2**20
_NO_ITEMS: Final = ItemCounts(0, 0, 0)


class EndedAttempts:
    """The ends of attempts that one transaction records."""

    def __init__(self) -> None:
        self.rows: list[EndedItem] = []
        self.events: list[NewEvent] = []
        self.files: list[StepFile] = []
        self.unwanted: list[StepFile] = []
        self.redacted: list[StageCounts] = []
        self.model_usage: list[AttemptUsage] = []


@dataclass(slots=True)
class ItemJournal:
    """Writes the items of one step; used on the engine's loop.

    `counts`, `files` and `outputs` include the change being written; `value_bytes` is the size of the list of values so
    far. `skipped` counts entries of items' folders that were left out.
    """

    context: SegmentContext
    run_id: str
    key_id: str
    segment_id: str
    step: str
    on_counts: Callable[[ItemCounts], None]
    counts: ItemCounts = _NO_ITEMS
    value_bytes: int = 1
    files: int = 0
    outputs: int = 0
    skipped: Counter[str] = field(default_factory=Counter)

    async def store(self, items: Sequence[str]) -> None:
        """Writes the items, as JSON texts, in batches of bounded size."""
        first = 0
        while first < len(items):
            end, size = first, 0
            while end < len(items) and end - first < ROWS_AT_ONCE and (end == first or size < _BYTES_AT_ONCE):
                size += len(items[end])
                end += 1
            part = items[first:end]
            await self.write(
                partial(fan_out_sql.add_items, run_id=self.run_id, step=self.step, first=first, items=part)
            )
            first = end
        self.counts = counts = ItemCounts(len(items), 0, 0)
        await self.write(lambda tx: fan_out_sql.count_items(tx, self.run_id, self.step, counts))
        self.on_counts(counts)

    def fits(self, value_bytes: int) -> bool:
        """Returns whether a value of this size, with its comma or bracket, fits into the step's limit."""
        return self.value_bytes + value_bytes + 1 <= self.context.step_data.result_bytes

    def complete(self, ended: EndedAttempts, index: int, attempt: int, outcome: StepCompletion) -> None:
        """Adds a completed item to `ended`."""
        size = len(outcome.value.encode())
        self._add(size, outcome.files)
        self.skipped.update(outcome.skipped)
        self.counts = self.counts._replace(completed=self.counts.completed + 1)
        if outcome.swept is not None:
            swept = {"stage": STEPS, "files": outcome.swept.files, "values": outcome.swept.values}
            ended.events.append(NewEvent("redaction.completed", self.step, swept))
        ended.events.append(self._completed_event(index, attempt, outcome.files))
        ended.files += outcome.files
        ended.rows.append(EndedItem(index, StepStatus.COMPLETED, attempt, outcome.value, size, len(outcome.files)))

    def retry(self, ended: EndedAttempts, index: int, attempt: int, outcome: StepFailure, retry_at: int) -> None:
        """Adds a failed attempt, of an item that is retried, to `ended`."""
        ended.events.append(self._failed_event(index, attempt, outcome, to_text(retry_at)))
        ended.rows.append(EndedItem(index, StepStatus.PENDING, attempt))

    def fail(self, ended: EndedAttempts, index: int, attempt: int, outcome: StepFailure) -> None:
        """Adds an item that is not retried to `ended`, with its error as its value."""
        value = json_text.write({"error": {"type": outcome.type, "message": outcome.message}})
        size = len(value.encode())
        self._add(size, ())
        self.counts = self.counts._replace(failed=self.counts.failed + 1)
        ended.events.append(self._failed_event(index, attempt, outcome, None))
        ended.rows.append(EndedItem(index, StepStatus.FAILED, attempt, value, size, 0))

    async def record(self, ended: EndedAttempts) -> None:
        """Writes the ended attempts; durable on return. Raises as `write`."""
        counts, at = self.counts, self.context.clock()

        def work(tx: Tx) -> None:
            append_events(tx, self.segment_id, at, ended.events)
            fan_out_sql.end_items(tx, self.run_id, self.step, ended.rows, counts)
            _add_files(tx, ended.files, at)
            for found in ended.redacted:
                redaction_manifest_sql.add_counts(tx, self.run_id, found)
            model_usage_sql.record(tx, self.run_id, at, ended.model_usage)

        try:
            await self.write(work, ended.files)
        finally:
            await self.discard(ended.unwanted)
        self.on_counts(counts)

    async def record_reused(self, of_run: str, reused: Sequence[tuple[ReusableItemRow, Sequence[StepFile]]]) -> None:
        """Completes items with values of the run `of_run`, and with copies of its files. Raises as `write`."""
        events = [self._completed_event(row.item_index, 0, files) for row, files in reused]
        for row, files in reused:
            self._add(row.value_bytes, files)
        self.counts = counts = self.counts._replace(completed=self.counts.completed + len(reused))
        copies = [file for _, files in reused for file in files]
        at = self.context.clock()

        def work(tx: Tx) -> None:
            append_events(tx, self.segment_id, at, events)
            fan_out_sql.reuse_items(tx, self.run_id, self.step, of_run, [row.item_index for row, _ in reused])
            fan_out_sql.count_items(tx, self.run_id, self.step, counts)
            _add_files(tx, copies, at)

        await self.write(work, copies)
        self.on_counts(counts)

    async def write(self, work: Callable[[Tx], object], files: Sequence[StepFile] = ()) -> None:
        """Writes a change, if this process executes the segment; a cancellation waits for the commit.

        Raises:
            SegmentEndedError: the segment does not run. After this and any other failure, the files are removed.
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
                # A committed row may name the files; if none does, the run's final sweep or erasure removes them.
                raise
            except BaseException:
                await self.discard(files)
                raise

        await run_shielded(write())

    async def discard(self, files: Sequence[StepFile]) -> None:
        """Removes the objects of files that no row will name."""
        if files:
            await self.context.in_slow_thread(lambda: discard(self.context.objects, files))

    def _add(self, value_bytes: int, files: Sequence[StepFile]) -> None:
        self.value_bytes += value_bytes + 1
        self.files += len(files)
        self.outputs += _outputs(files)

    def _completed_event(self, index: int, attempt: int, files: Sequence[StepFile]) -> NewEvent:
        data = {"item_index": index, "attempt": attempt, "outputs": _outputs(files)}
        return NewEvent("step.item_completed", self.step, data)

    def _failed_event(self, index: int, attempt: int, outcome: StepFailure, retry_at: str | None) -> NewEvent:
        data = {
            "item_index": index,
            "type": outcome.type,
            "message": outcome.message,
            "attempt": attempt,
            "retry_at": retry_at,
        }
        return NewEvent("step.item_failed", self.step, data)


def _outputs(files: Sequence[StepFile]) -> int:
    return sum(isinstance(file, NewOutput) for file in files)


def _add_files(tx: Tx, files: Sequence[StepFile], at: int) -> None:
    add_outputs(tx, [file for file in files if isinstance(file, NewOutput)], at)
    add_shared_files(tx, [file for file in files if isinstance(file, SharedFileRow)])
