"""Makes durable what an executing segment has gathered, and closes its run."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final

from backend.outputs.store import NewOutput
from backend.runs.lifecycle import Held
from backend.runtime import store
from backend.runtime.beginning import Begun
from backend.runtime.endings import ORPHANED, Ending, reason_to_stop
from backend.runtime.means import Means
from backend.runtime.promotion import discard
from backend.storage.database import DatabaseAwayError, OutcomeUnknownError, Tx, run_of

_LOG = logging.getLogger(__name__)

_PATIENCE_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.5


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
            await self._write(work)
        except OutcomeUnknownError:
            # A row may name the outputs; what none names goes with the run.
            raise
        except BaseException:
            await self.discard(changes.outputs)
            raise

    async def _write(self, work: Callable[[Tx], None]) -> None:
        """Waits out a short absence of the database, by less than a lease lasts."""
        end = monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                await self._means.in_thread(lambda: self._means.database.write(work, of=run_of(self._run_id)))
            except OutcomeUnknownError:
                raise
            except DatabaseAwayError:
                if monotonic() >= end:
                    raise
                _LOG.warning("Run %s waits for the database", self._run_id)
                await asyncio.sleep(_PAUSE_SECONDS)
            else:
                return

    async def close(self, ending: Ending) -> None:
        """Closes the run, with what the board has gathered. Raises as `record`."""
        await self.record(lambda tx, at: ending.close(tx, self._run_id, at, self._held))

    async def close_stopped(self) -> None:
        """Closes the run for the reason that its row gives, else as orphaned; what fails is left to the sweeper."""
        at = self._means.clock()

        def work(tx: Tx) -> None:
            ending = reason_to_stop(store.run_of_segment(tx, self._segment_id), at) or ORPHANED
            ending.close(tx, self._run_id, at, self._held)

        try:
            await self._means.in_thread(lambda: self._means.database.write(work, of=run_of(self._run_id)))
        except Exception:  # noqa: BLE001 - whatever keeps it from being recorded may pass
            _LOG.exception("Run %s could not be closed yet", self._run_id)

    async def discard(self, outputs: Sequence[NewOutput]) -> None:
        """Removes the bytes of outputs that no row will name."""
        await self._means.in_thread(lambda: discard(self._means.objects, outputs))
