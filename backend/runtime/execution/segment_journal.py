"""Writes the changes of an executing segment to the database, and closes its run."""

import logging
from collections.abc import Awaitable, Callable, Sequence

from backend.runtime.execution import retries, sql
from backend.runtime.execution.claim import ClaimedSegment
from backend.runtime.execution.segment_context import SegmentContext
from backend.runtime.final_sweep.sql import is_swept, request_removal_of_unnamed
from backend.runtime.outcomes import ORPHANED, RunOutcome, reason_to_stop
from backend.runtime.promotion import discard
from backend.services.model_usage import sql as model_usage_sql
from backend.services.model_usage.sql import AttemptUsage
from backend.services.outputs.sql import NewOutput, StepFile, add_outputs
from backend.services.runs.erase_sql import request_removal_again
from backend.services.runs.lifecycle import RunResult, SegmentLease, complete_run
from backend.storage.database import OutcomeUnknownError, Tx

_LOG = logging.getLogger(__name__)


class SegmentJournal:
    """Writes the unit of work of one segment's step states; used on the engine's loop."""

    def __init__(self, context: SegmentContext, segment_id: str, claimed: ClaimedSegment) -> None:
        self._context = context
        self._segment_id = segment_id
        self._lease = SegmentLease(segment_id, context.owner)
        self._run_id = claimed.run_id
        self._key_id = claimed.key_id
        self._step_states = claimed.step_states
        self._redacts = claimed.redaction is not None and claimed.redaction.redacts_outputs

    async def record(self, last: Callable[[Tx, int], object] | None = None) -> None:
        """Writes the gathered changes, then `last` in the same transaction; durable on return.

        Raises:
            SegmentEndedError: another process closed the run.
        """
        changes = self._step_states.take_changes()
        if not changes and last is None:
            return
        at = self._context.clock()

        def work(tx: Tx) -> None:
            changes.write(tx, self._run_id, self._segment_id, at)
            if last is not None:
                last(tx, at)

        try:
            await self._write(work)
        except OutcomeUnknownError:
            # A committed row may name the files; if none does, the run's final sweep or erasure removes them.
            self._step_states.changes.model_usage += changes.model_usage
            raise
        except BaseException:
            self._step_states.changes.model_usage += changes.model_usage
            await self.discard(changes.files)
            raise

    async def close(self, outcome: RunOutcome) -> None:
        """Closes the run after the gathered changes. Raises as `record`."""
        await self.record(lambda tx, at: outcome.close(tx, self._run_id, at, self._lease))

    async def complete(
        self, result: RunResult, output: NewOutput | None, warnings: Sequence[str], *, promoted: bool
    ) -> None:
        """Closes the run as completed, with its result, and the output `result.json` unless it was recorded before.

        If a cancellation was requested meanwhile, the run is cancelled and the output removed. Raises as `record`.
        """
        stored = [] if output is None else [output]
        completed = False

        def close(tx: Tx, at: int) -> None:
            nonlocal completed
            completed = complete_run(
                tx,
                self._segment_id,
                at,
                result,
                warnings,
                promoted=promoted,
                add_output=lambda: add_outputs(tx, stored, at),
            )

        try:
            await self.record(close)
        except OutcomeUnknownError:
            # As in `record`.
            raise
        except BaseException:
            await self.discard(stored)
            raise
        if not completed:
            await self.discard(stored)

    async def close_stopped(self, decided: RunOutcome | None = None) -> None:
        """Closes the run with the decided outcome, else with the one that its row implies, else as orphaned.

        A failure is left to the run reaper.
        """
        at = self._context.clock()

        def work(tx: Tx) -> None:
            outcome = decided or reason_to_stop(sql.run_of_segment(tx, self._segment_id), at) or ORPHANED
            outcome.close(tx, self._run_id, at, self._lease)

        try:
            await self._write_once(work)
        except Exception:  # noqa: BLE001 - the cause may pass, and the run reaper closes it then
            _LOG.exception("Run %s could not be closed yet", self._run_id)

    async def _write(self, work: Callable[[Tx], None]) -> None:
        await retries.DATABASE.run(lambda: self._write_once(work), f"A change of run {self._run_id}")

    def _write_once(self, work: Callable[[Tx], None]) -> Awaitable[None]:
        return self._context.write_run(self._run_id, self._key_id, work)

    async def discard_unrecorded(self, files: Sequence[StepFile], usages: Sequence[AttemptUsage]) -> None:
        """Removes files that were not recorded, and requests the removal of objects of a run closed meanwhile.

        The use of models is recorded: it was paid for.
        """
        await self.discard(files)
        at = self._context.clock()

        def order(tx: Tx) -> None:
            model_usage_sql.record(tx, self._run_id, at, usages)
            request_removal_again(tx, self._run_id, at)
            if self._redacts and is_swept(tx, self._run_id):
                request_removal_of_unnamed(tx, self._run_id, self._segment_id)

        try:
            await self._write(order)
        except Exception:  # noqa: BLE001 - the segment ends all the same
            _LOG.exception(
                "Use of models by run %s is not recorded, or its objects not removed should it be erased or swept",
                self._run_id,
            )

    async def discard(self, files: Sequence[StepFile]) -> None:
        """Removes the objects of files that no row will name."""
        await self._context.in_slow_thread(lambda: discard(self._context.objects, files))
