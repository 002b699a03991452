"""One segment of a run from its claim to its end, with requests to stop or abort it."""

import asyncio
import logging
from contextlib import suppress

from backend.runtime.execution import retries
from backend.runtime.execution.claim import ClaimedSegment, claim_segment
from backend.runtime.execution.segment_context import SegmentContext
from backend.runtime.execution.segment_run import SegmentRun
from backend.runtime.execution.traced_work import traced_segment
from backend.services.runs.lifecycle import requeue_segment
from backend.storage.database import DatabaseUnavailableError, Tx

_LOG = logging.getLogger(__name__)


class Segment:
    """A segment, used on the engine's loop only; `claimed` is set if the start of its run has claimed it."""

    def __init__(self, context: SegmentContext, segment_id: str, claimed: ClaimedSegment | None = None) -> None:
        self._context = context
        self._segment_id = segment_id
        self._claimed = claimed
        self._stop = asyncio.Event()
        self._abort = asyncio.Event()

    @property
    def claimed(self) -> bool:
        """Returns whether this process has claimed the segment; from any thread."""
        return self._claimed is not None

    def stop(self) -> None:
        """Makes the segment kill its steps and close its run, with the outcome that the run's row implies."""
        self._stop.set()

    def abort(self) -> None:
        """Stops the segment as `stop`, and ends the steps of `on_failure` and `always` as well."""
        self._abort.set()
        self._stop.set()

    async def run(self) -> None:
        """Executes the segment to its end; an unexpected failure is logged, and ends a run that began as `orphaned`."""
        await traced_segment(self._context, self._segment_id, self._execute, reserved=self.claimed)

    async def _execute(self) -> None:
        claimed = self._claimed
        if claimed is None:
            if self._stop.is_set():
                # Executed by a process that stops, the run would end as orphaned.
                await self._requeue()
                return
            claimed = self._claimed = await self._claim()
        if claimed is not None:
            await SegmentRun(self._context, self._segment_id, claimed, self._stop, self._abort).run()

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
        # No cached answer shows which process has a queued segment.
        tx.keeps_caches_valid = True
        requeue_segment(tx, self._segment_id)
