"""Makes durable what an executing segment has gathered, and closes its run."""

import logging
from collections.abc import Awaitable, Callable, Sequence

from backend.outputs.sql import NewOutput
from backend.runs.erase_sql import order_again
from backend.runs.lifecycle import SegmentLease
from backend.runtime.execution import retries, sql
from backend.runtime.execution.claim import ClaimedSegment
from backend.runtime.execution.outcomes import ORPHANED, Outcome, reason_to_stop
from backend.runtime.execution.promotion import discard
from backend.runtime.execution.segment_context import SegmentContext
from backend.storage.database import OutcomeUnknownError, Tx, run_of

_LOG = logging.getLogger(__name__)


class SegmentJournal:
    """What one segment records, on the engine's loop."""

    def __init__(self, context: SegmentContext, segment_id: str, claimed: ClaimedSegment) -> None:
        self._context = context
        self._segment_id = segment_id
        self._lease = SegmentLease(segment_id, context.owner)
        self._run_id = claimed.run_id
        self._step_states = claimed.step_states

    async def record(self, last: Callable[[Tx, int], object] | None = None) -> None:
        """Makes durable what the board has gathered, with `last` behind it in the same transaction.

        Raises:
            SegmentEndedError: the run was closed by somebody else.
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
            # A row may name the outputs; what none names goes with the run.
            raise
        except BaseException:
            await self.discard(changes.outputs)
            raise

    async def close(self, ending: Outcome) -> None:
        """Closes the run, with what the board has gathered. Raises as `record`."""
        await self.record(lambda tx, at: ending.close(tx, self._run_id, at, self._lease))

    async def close_stopped(self) -> None:
        """Closes the run for the reason that its row gives, else as orphaned; what fails is left to the sweeper."""
        at = self._context.clock()

        def work(tx: Tx) -> None:
            ending = reason_to_stop(sql.run_of_segment(tx, self._segment_id), at) or ORPHANED
            ending.close(tx, self._run_id, at, self._lease)

        try:
            await self._write_once(work)
        except Exception:  # noqa: BLE001 - whatever keeps it from being recorded may pass
            _LOG.exception("Run %s could not be closed yet", self._run_id)

    async def _write(self, work: Callable[[Tx], None]) -> None:
        await retries.DATABASE.run(lambda: self._write_once(work), f"A change of run {self._run_id}")

    def _write_once(self, work: Callable[[Tx], None]) -> Awaitable[None]:
        database, lock_key = self._context.database, run_of(self._run_id)
        return self._context.in_thread(lambda: database.write(work, lock_key=lock_key))

    async def give_up(self, outputs: Sequence[NewOutput]) -> None:
        """Has removed what was stored for a run that somebody else may have closed, and that was erased since then."""
        await self.discard(outputs)
        at = self._context.clock()
        try:
            await self._write(lambda tx: order_again(tx, self._run_id, at))
        except Exception:  # noqa: BLE001 - the segment ends all the same
            _LOG.exception("Whether run %s was erased meanwhile could not be seen", self._run_id)

    async def discard(self, outputs: Sequence[NewOutput]) -> None:
        """Removes the bytes of outputs that no row will name."""
        await self._context.in_slow_thread(lambda: discard(self._context.objects, outputs))
