"""Ends runs that must end and that no segment ends by itself."""

import logging
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from time import monotonic

from backend import metrics
from backend.clock import Clock
from backend.runs.lifecycle import SegmentLease
from backend.runtime.outcomes import LAUNCH_FAILED, ORPHANED, Outcome, reason_to_stop, time_limit
from backend.runtime.scheduling import sql, workers_sql
from backend.runtime.scheduling.clock_steps import ClockSteps
from backend.runtime.scheduling.engine import Engine
from backend.runtime.scheduling.sql import QueuedSegmentRow, RunningSegmentRow
from backend.storage.database import Database, Tx, run_of
from contract import failure_codes

_LOG = logging.getLogger(__name__)


class Sweeper:
    """Checks every run in flight; each closing is a compare-and-set, so that a run that just ended stays as it is.

    `owner` is this session where other processes share the database, and a segment without a live owner belongs to
    nobody; it is None where every segment belongs to this process. After a step of the clock, leases and launches get
    their full time again.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        engine: Engine,
        launch_timeout_ms: int,
        owner: str | None = None,
        *,
        steady: Callable[[], float] = monotonic,
    ) -> None:
        self._database = database
        self._clock = clock
        self._engine = engine
        self._launch_timeout_ms = launch_timeout_ms
        self._owner = owner
        self._steps = ClockSteps(clock, steady)

    def recover(self) -> None:
        """Ends runs that an earlier process left running, and has queued segments handed over; called at the start.

        A run ends with the outcome that its row says, so that a cancel which was answered holds, and else as orphaned.
        Parked and finished runs stay as they are. (contract 13.10)
        """
        now = self._clock()
        for segment in self._database.read(sql.running):
            self._end(segment, reason_to_stop(segment, now), now)
        self._database.write(sql.take_back)

    def take_back(self) -> None:
        """Has every queued segment handed over again: an engine that is gone may have had it."""
        self._database.write(sql.take_back, lock_key="launcher")

    def sweep(self) -> None:
        """Runs one round, which is cheap where nothing is in flight."""
        now = self._clock()
        since_step_ms = self._steps.ms_since_last()
        running = self._database.read(sql.running)
        live = self._live(running, now, since_step_ms)
        for segment in running:
            reason = reason_to_stop(segment, now)
            if segment.owner in live:
                continue
            if not self._engine.executes(segment.segment_id):
                # Its executor could not record the end, as while the database was unavailable.
                self._end(segment, reason, now)
            elif reason is not None:
                # It records the end itself, once its processes are dead.
                self._engine.cancel(segment.segment_id)
        for run in self._database.read(lambda tx: sql.parked_past_limit(tx, now)):
            self._close(run.run_id, time_limit(run.max_run_hours), now)
        if since_step_ms >= self._launch_timeout_ms:
            self._fail_launches(now)

    def _fail_launches(self, now: int) -> None:
        before = now - self._launch_timeout_ms
        for queued in self._database.read(lambda tx: sql.not_launched(tx, before)):
            self._fail_launch(queued, now)
        if self._owner is not None and not self._database.read(lambda tx: workers_sql.live(tx, now)):
            # No worker is alive: segments that wait to be handed over are not taken up either.
            for queued in self._database.read(lambda tx: sql.not_handed_over(tx, before)):
                self._fail_launch(queued, now)

    def _live(self, running: list[RunningSegmentRow], now: int, since_step_ms: float) -> AbstractSet[str | None]:
        """Returns the other processes that hold a lease, and end their segments themselves."""
        owners = {segment.owner for segment in running} - {self._owner}
        if self._owner is None or not owners:
            return set()
        if since_step_ms < workers_sql.LEASE_SECONDS * 1000:
            # Their leases were written before the step.
            return owners
        return self._database.read(lambda tx: workers_sql.live(tx, now)) - {self._owner}

    def _end(self, segment: RunningSegmentRow, reason: Outcome | None, now: int) -> None:
        """Closes the run of a segment that nobody executes, unless it ended or parked since it was read."""
        self._close(segment.run_id, reason or ORPHANED, now, SegmentLease(segment.segment_id, segment.owner or ""))

    def _close(self, run_id: str, outcome: Outcome, now: int, lease: SegmentLease | None = None) -> None:
        if self._database.write(lambda tx: outcome.close(tx, run_id, now, lease), lock_key=run_of(run_id)):
            metrics.SWEEPER_CLOSED.add(outcome.code or outcome.status)
            _LOG.warning("Run %s was closed as %s", run_id, outcome.code or outcome.status)

    def _fail_launch(self, segment: QueuedSegmentRow, now: int) -> None:
        def work(tx: Tx) -> bool:
            return sql.is_queued(tx, segment.segment_id) and LAUNCH_FAILED.close(tx, segment.run_id, now)

        if self._database.write(work, lock_key=run_of(segment.run_id)):
            metrics.SWEEPER_CLOSED.add(failure_codes.LAUNCH_FAILED)
            _LOG.warning("Run %s was closed as %s", segment.run_id, failure_codes.LAUNCH_FAILED)
