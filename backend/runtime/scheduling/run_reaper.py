"""Closes runs that lost their worker, timed out or were cancelled, and requeues segments that did not start."""

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Final, NamedTuple

from backend.common import metrics
from backend.common.clock import Clock
from backend.runtime.outcomes import CANCEL, LAUNCH_FAILED, ORPHANED, RunOutcome, reason_to_stop, time_limit
from backend.runtime.scheduling import sql
from backend.runtime.scheduling.dispatcher import Engine
from backend.runtime.scheduling.sql import LEASE_MS, LeaseRow, OpenSegmentRow, QueuedSegmentRow
from backend.services.runs import approvals_sql, deadlines, in_flight_sql, lifecycle_sql
from backend.services.runs.lifecycle import SegmentLease, end_with_last_steps
from backend.storage.database import Database, Tx, run_of
from contract import failure_codes

_LOG = logging.getLogger(__name__)

# A dispatched segment that has not begun for so long is dispatched again: its engine may have lost it.
_REQUEUED_AFTER_MS: Final = 10_000
_SUSPECTED_TIMES: Final = 2

_LONGEST_COUNTED_SECONDS: Final = LEASE_MS / 2000

_JUMP_MS: Final = 1_000

_MOST_APPROVALS: Final = 200
"""Most approvals that one round expires, and most that it reminds people of."""


@dataclass(slots=True)
class _Wait:
    """Seconds in which a segment could have begun, counted up to a time of the steady clock."""

    seconds: float
    counted_until: float


class LaunchTimeouts:
    """Counts the time in which a dispatched segment did not begin although a live worker had free slots.

    Time counts between two calls, at most half a lease, and only if a worker with free slots renewed its lease in it: a
    process that was paused must not count its pause. Times are seconds of the monotonic clock. Not thread-safe.
    """

    def __init__(self, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self._renewals: dict[str, int] = {}
        self._waits: dict[str, _Wait] = {}
        self._without_worker_since: float | None = None

    def timed_out(
        self, not_begun: Collection[QueuedSegmentRow], leases: Collection[LeaseRow] | None, now: float
    ) -> list[QueuedSegmentRow]:
        """Counts the time since the last call; returns the segments that have timed out.

        Args:
            not_begun: The queued segments that are dispatched, or were before they were requeued.
            leases: The leases of all workers; None if this process is the only worker, and has free slots.
            now: The present time.
        """
        worker_was_free = leases is None or self._renewed_with_room(leases)
        self._waits = {row.segment_id: self._waits.get(row.segment_id) or _Wait(0.0, now) for row in not_begun}
        if worker_was_free:
            for row in not_begun:
                wait = self._waits[row.segment_id]
                if row.handed_over_at is not None:
                    wait.seconds += min(now - wait.counted_until, _LONGEST_COUNTED_SECONDS)
                wait.counted_until = now
        return [row for row in not_begun if self._waits[row.segment_id].seconds >= self._timeout_seconds]

    def without_worker(self, leases: Collection[LeaseRow], now: float) -> bool:
        """Returns whether this process has seen no live worker for the whole time-out."""
        if leases:
            self._without_worker_since = None
        elif self._without_worker_since is None:
            self._without_worker_since = now
        since = self._without_worker_since
        return since is not None and now - since >= self._timeout_seconds

    def _renewed_with_room(self, leases: Collection[LeaseRow]) -> bool:
        """Returns whether a worker with free slots, not draining, has renewed its lease since the last call."""
        before, self._renewals = self._renewals, {row.owner: row.lease_until for row in leases}
        return any(
            not row.draining and row.room > 0 and before.get(row.owner, row.lease_until) != row.lease_until
            for row in leases
        )


class ClockReading(NamedTuple):
    """Wall-clock time, and the time since its last observed jump, in milliseconds."""

    now: int
    ms_since_jump: float


class ClockJumpDetector:
    """Detects jumps of the wall clock, which may be a server's, against the monotonic clock. Not thread-safe."""

    def __init__(self, clock: Clock, steady: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._steady = steady
        self._offset_ms: float | None = None
        self._error_ms = 0.0
        # A jump before the first reading cannot be seen, so one is assumed.
        self._jumped_at = steady()

    def read(self) -> ClockReading:
        """Reads both clocks: a jump changes their offset by a second or more beyond the error of the readings."""
        before = self._steady()
        now = self._clock()
        after = self._steady()
        offset_ms, error_ms = now - (before + after) * 500, (after - before) * 500
        if self._offset_ms is not None and abs(offset_ms - self._offset_ms) >= _JUMP_MS + error_ms + self._error_ms:
            self._jumped_at = after
        self._offset_ms, self._error_ms = offset_ms, error_ms
        return ClockReading(now, (after - self._jumped_at) * 1000)


def _always(outcome: RunOutcome) -> Callable[[Tx], RunOutcome]:
    return lambda _: outcome


class RunReaper:
    """Checks every run in flight; it closes runs by compare-and-set, so a run that has just ended does not change.

    Args:
        database: The database with the runs.
        clock: Clock that stamps changes of rows.
        engine: The engine of this process.
        launch_timeout_ms: Longest time that a dispatched segment may stay unstarted while a worker has free slots.
        owner: Id of this worker's session if processes share the database; a segment whose owner has no lease is then
            orphaned. None if every segment belongs to this process.
        lease_clock: Clock in which leases are written, if not `clock`.
        steady: Seconds of the monotonic clock.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        engine: Engine,
        launch_timeout_ms: int,
        owner: str | None = None,
        *,
        lease_clock: Clock | None = None,
        steady: Callable[[], float] = monotonic,
    ) -> None:
        self._database = database
        self._clock = clock
        self._engine = engine
        self._launch_timeout_ms = launch_timeout_ms
        self._owner = owner
        self._steady = steady
        self._clock_jumps = ClockJumpDetector(lease_clock or clock, steady)
        self._timeouts = LaunchTimeouts(launch_timeout_ms / 1000)
        self._suspects: dict[str, int] = {}

    def recover(self) -> None:
        """Ends runs that an earlier process left running, and requeues queued segments; called at the start.

        A run ends as cancelled if its cancel was requested, for that request was answered; by its time limit if that
        has passed; and otherwise as orphaned. Parked and finished runs do not change. (contract 13.10)
        """
        now = self._clock()
        for segment in self._database.read(sql.running):
            self._end(segment, now)
        self._database.write(sql.requeue_all)

    def requeue_all(self) -> None:
        """Requeues every queued segment, because the engine that had it may be gone."""
        self._database.write(sql.requeue_all, lock_key="launcher")

    def reap(self) -> None:
        """Runs one round, which is cheap where nothing is in flight."""
        now = self._clock()
        reading = self._clock_jumps.read()
        # Read first: a segment that starts between the two reads must not look lost.
        executed = self._engine.claimed()
        running = self._database.read(sql.running)
        leases = self._leases(reading)
        others = {lease.owner for lease in leases or ()} - {self._owner}
        for segment in running:
            reason = reason_to_stop(segment, now)
            if segment.owner in others:
                # Its owner is alive and ends the segment itself.
                continue
            if not self._engine.executes(segment.segment_id):
                # The executor could not record the end, for example because the database was unavailable.
                self._end(segment, now)
            elif reason is not None:
                # The engine records the end once the processes are dead.
                self._engine.cancel(segment.segment_id)
        self._end_lost(executed - {segment.segment_id for segment in running if segment.owner == self._owner})
        for run in self._database.read(lambda tx: sql.overdue_parked_runs(tx, now)):
            cancelled = run.cancel_requested_at is not None
            if not self._ends_with_last_steps(run.run_id, now):
                self._close(run.run_id, _always(CANCEL if cancelled else time_limit(run.max_run_hours or 0)), now)
        self._end_approvals(now)
        self._check_launches(leases, now, reading.ms_since_jump)

    def _end_approvals(self, now: int) -> None:
        """Expires approvals whose deadline has passed, and records reminders; another process may be first."""
        for due in self._database.read(lambda tx: approvals_sql.expiring(tx, now, _MOST_APPROVALS)):
            expiry = partial(deadlines.expire, approval_id=due.approval_id, at=now)
            if self._database.write(expiry, lock_key=run_of(due.run_id)):
                _LOG.info("The deadline of approval %s of run %s has passed", due.approval_id, due.run_id)
        for due in self._database.read(lambda tx: approvals_sql.reminding(tx, now, _MOST_APPROVALS)):
            reminder = partial(deadlines.remind, approval_id=due.approval_id, at=now)
            self._database.write(reminder, lock_key=run_of(due.run_id))

    def _check_launches(self, leases: Collection[LeaseRow] | None, now: int, ms_since_jump: float) -> None:
        """Fails launches that timed out, and requeues segments that an engine may have lost."""
        steady = self._steady()
        not_begun = self._database.read(sql.not_begun)
        for queued in not_begun:
            # The time may lie in the future if the clock was set back.
            if queued.handed_over_at is not None and abs(now - queued.handed_over_at) > _REQUEUED_AFTER_MS:
                self._database.write(partial(sql.requeue, queued=queued), lock_key=run_of(queued.run_id))
        # After the requeueing, so that no time counts in which the database takes no changes.
        for queued in self._timeouts.timed_out(not_begun, leases, steady):
            self._fail_launch(queued, now)
        if leases is None or not self._timeouts.without_worker(leases, steady):
            return
        if ms_since_jump >= self._launch_timeout_ms:
            before = now - self._launch_timeout_ms
            for queued in self._database.read(lambda tx: sql.queued_before(tx, before)):
                self._fail_launch(queued, now)

    def _leases(self, reading: ClockReading) -> Collection[LeaseRow] | None:
        """Removes lapsed leases and returns the leases of live processes; None if no other process shares the database.

        A process whose lease was removed learns so at its next renewal. No lease is removed soon after a jump of the
        clock, because its time was written before the jump.
        """
        if self._owner is None:
            return None
        leases = self._database.read(sql.leases)
        if reading.ms_since_jump < sql.LEASE_MS:
            return leases
        lapsed = [lease for lease in leases if lease.lapsed(reading.now) and lease.owner != self._owner]
        removed = {lease.owner for lease in lapsed if self._remove(lease)}
        return [lease for lease in leases if lease.owner not in removed]

    def _remove(self, lease: LeaseRow) -> bool:
        lock_key = sql.lease_lock_key(lease.owner)
        removed = self._database.write(lambda tx: sql.remove_lapsed_lease(tx, lease), lock_key=lock_key)
        if removed:
            _LOG.warning("The lease of %s on %s ended without being renewed", lease.owner, lease.host)
        return removed

    def _end_lost(self, suspects: Collection[str]) -> None:
        """Ends segments that this process executes although another process has closed their runs, or taken them.

        A segment that has just ended is a suspect once, and longer while its files are removed.
        """
        if self._owner is None:
            return
        self._suspects = {segment_id: self._suspects.get(segment_id, 0) + 1 for segment_id in suspects}
        for segment_id in [one for one, times in self._suspects.items() if times == _SUSPECTED_TIMES]:
            if not self._database.read(partial(lifecycle_sql.owns, segment_id=segment_id, owner=self._owner)):
                self._engine.abandon(segment_id)

    def _ends_with_last_steps(self, run_id: str, now: int) -> bool:
        """Returns whether a parked run has steps that run last; queues the segment that runs them."""
        if not self._database.read(lambda tx: lifecycle_sql.has_last_steps(tx, run_id)):
            return False
        if self._database.read(lambda tx: lifecycle_sql.open_segments(tx, run_id)):
            return True
        return self._database.write(lambda tx: end_with_last_steps(tx, run_id, now), lock_key=run_of(run_id))

    def _end(self, segment: OpenSegmentRow, now: int) -> None:
        """Closes the run of a segment that nobody executes, unless it ended or parked since it was read.

        The run may have been cancelled since, as a child of a run that was closed.
        """
        run_id, lease = segment.run_id, SegmentLease(segment.segment_id, segment.owner or "")
        self._close(run_id, lambda tx: reason_to_stop(sql.stop_reason_of(tx, run_id), now) or ORPHANED, now, lease)

    def _close(
        self, run_id: str, choose: Callable[[Tx], RunOutcome], now: int, lease: SegmentLease | None = None
    ) -> None:
        def work(tx: Tx) -> RunOutcome | None:
            outcome = choose(tx)
            return outcome if outcome.close(tx, run_id, now, lease) else None

        outcome = self._database.write(work, lock_key=run_of(run_id))
        if outcome is not None:
            metrics.RUNS_REAPED.add(outcome.code or outcome.status)
            _LOG.warning("Run %s was closed as %s", run_id, outcome.code or outcome.status)

    def _fail_launch(self, segment: QueuedSegmentRow, now: int) -> None:
        def work(tx: Tx) -> bool:
            queued = sql.queued(tx, segment.segment_id)
            if queued is None:
                return False
            closed = (reason_to_stop(queued, now) or LAUNCH_FAILED).close(tx, segment.run_id, now)
            # If the run had ended before, only this ends the segment.
            in_flight_sql.end_left_segment(tx, segment.segment_id)
            return closed

        if self._database.write(work, lock_key=run_of(segment.run_id)):
            metrics.RUNS_REAPED.add(failure_codes.LAUNCH_FAILED)
            _LOG.warning("Run %s was closed: its segment did not begin", segment.run_id)
