"""Launch time-outs: how long queued segments could have begun, and did not.

A segment that waits behind busy workers, or for workers that are starting again, does not time out.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from backend.runtime.scheduling.sql import QueuedSegmentRow
from backend.runtime.scheduling.workers_sql import LEASE_MS, LeaseRow

_LONGEST_PROVEN_SECONDS: Final = LEASE_MS / 2000


@dataclass(slots=True)
class _Wait:
    """Seconds in which a segment could have begun, counted up to a time of the steady clock."""

    seconds: float
    counted_until: float


class LaunchTimeouts:
    """Counts the time in which a live worker with room did not begin a segment that was handed over.

    A renewed lease proves that its worker was alive before, and a call that this process was: for half a lease at most,
    since who was frozen, or could not write, goes on as well. Times are seconds of a clock that nobody sets. Not
    thread-safe.
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
            not_begun: The queued segments that were handed over, now or before.
            leases: Those of all workers; None where this process alone is the worker, and has room.
            now: The present time.
        """
        proven = leases is None or self._renewed_with_room(leases)
        self._waits = {row.segment_id: self._waits.get(row.segment_id) or _Wait(0.0, now) for row in not_begun}
        if proven:
            for row in not_begun:
                wait = self._waits[row.segment_id]
                if row.handed_over_at is not None:
                    wait.seconds += min(now - wait.counted_until, _LONGEST_PROVEN_SECONDS)
                wait.counted_until = now
        return [row for row in not_begun if self._waits[row.segment_id].seconds >= self._timeout_seconds]

    def without_worker(self, leases: Collection[LeaseRow], now: float) -> bool:
        """Returns whether no worker has been alive for the whole time-out, as far as this process has seen."""
        if leases:
            self._without_worker_since = None
        elif self._without_worker_since is None:
            self._without_worker_since = now
        since = self._without_worker_since
        return since is not None and now - since >= self._timeout_seconds

    def _renewed_with_room(self, leases: Collection[LeaseRow]) -> bool:
        """Returns whether a worker that takes segments has renewed its lease since the last call, with room."""
        before, self._renewals = self._renewals, {row.owner: row.lease_until for row in leases}
        return any(
            not row.draining and row.room > 0 and before.get(row.owner, row.lease_until) != row.lease_until
            for row in leases
        )
