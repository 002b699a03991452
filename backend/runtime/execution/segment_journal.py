"""Makes durable what an executing segment has gathered, and closes its run."""

import logging
from collections.abc import Awaitable, Callable, Sequence

from backend.outputs.sql import NewOutput
from backend.retry import changed
from backend.runs.erase_sql import order_again
from backend.runs.lifecycle import Held
from backend.runtime.execution import sql
from backend.runtime.execution.claim import Begun
from backend.runtime.execution.outcomes import ORPHANED, Ending, reason_to_stop
from backend.runtime.execution.promotion import discard
from backend.runtime.execution.segment_context import Means
from backend.storage.database import OutcomeUnknownError, Tx, run_of

_LOG = logging.getLogger(__name__)


class Recording:
    """What one segment records, on the engine's loop."""

    def __init__(self, means: Means, segment_id: str, begun: Begun) -> None:
        self._means = means
        self._segment_id = segment_id
        self._held = Held(segment_id, means.owner)
        self._run_id = begun.run_id
        self._board = begun.board

    async def record(self, last: Callable[[Tx, int], object] | None = None) -> None:
        """Makes durable what the board has gathered, with `last` behind it in the same transaction.

        Raises:
            SegmentEndedError: the run was closed by somebody else.
        """
        changes = self._board.take_changes()
        if not changes and last is None:
            return
        at = self._means.clock()

        def work(tx: Tx) -> None:
            changes.write(tx, self._run_id, self._segment_id, at)
            if last is not None:
                last(tx, at)

        try:
            await changed(self._change(work), self._run_id)
        except OutcomeUnknownError:
            # A row may name the outputs; what none names goes with the run.
            raise
        except BaseException:
            await self.discard(changes.outputs)
            raise

    async def close(self, ending: Ending) -> None:
        """Closes the run, with what the board has gathered. Raises as `record`."""
        await self.record(lambda tx, at: ending.close(tx, self._run_id, at, self._held))

    async def close_stopped(self) -> None:
        """Closes the run for the reason that its row gives, else as orphaned; what fails is left to the sweeper."""
        at = self._means.clock()

        def work(tx: Tx) -> None:
            ending = reason_to_stop(sql.run_of_segment(tx, self._segment_id), at) or ORPHANED
            ending.close(tx, self._run_id, at, self._held)

        try:
            await self._change(work)()
        except Exception:  # noqa: BLE001 - whatever keeps it from being recorded may pass
            _LOG.exception("Run %s could not be closed yet", self._run_id)

    def _change(self, work: Callable[[Tx], None]) -> Callable[[], Awaitable[None]]:
        return lambda: self._means.in_thread(lambda: self._means.database.write(work, of=run_of(self._run_id)))

    async def give_up(self, outputs: Sequence[NewOutput]) -> None:
        """Has removed what was stored for a run that somebody else may have closed, and that was erased since then."""
        await self.discard(outputs)
        at = self._means.clock()
        try:
            await changed(self._change(lambda tx: order_again(tx, self._run_id, at)), self._run_id)
        except Exception:  # noqa: BLE001 - the segment ends all the same
            _LOG.exception("Whether run %s was erased meanwhile could not be seen", self._run_id)

    async def discard(self, outputs: Sequence[NewOutput]) -> None:
        """Removes the bytes of outputs that no row will name."""
        await self._means.in_slow_thread(lambda: discard(self._means.objects, outputs))
