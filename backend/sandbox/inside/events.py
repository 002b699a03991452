"""Limits the progress events of one attempt, and counts those that are dropped."""

from __future__ import annotations

import _thread

from backend.sandbox.inside.plain_json import encode
from backend.sandbox.inside.protocol import DROPPED, PROGRESS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from backend.sandbox.inside.channel import Channel


class EventBudget:
    """The limits of the events of one attempt; `dropped` counts its dropped events by the limit that each exceeded.

    An event that is too large is dropped alone; once one of the other two limits is exceeded, every later event is.
    Runner and worker each have a budget, and decide alike.
    """

    def __init__(self, event_bytes: int, events: int, event_data_bytes: int) -> None:
        self.dropped = {"event_bytes": 0, "events": 0, "event_data_bytes": 0}
        self.counted_to_the_end = True
        """Whether `dropped` is exact; it is a lower bound if the attempt ended before it sent the final count."""
        self._event_bytes = event_bytes
        self._events_left = events
        self._bytes_left = event_data_bytes
        self._exhausted: str | None = None

    def admit(self, size: int) -> bool:
        """Counts an event of that many bytes, and returns whether it is within the limits."""
        exceeded = self._exhausted or self._limit_exceeded_by(size)
        if exceeded is None:
            self._events_left -= 1
            self._bytes_left -= size
            return True
        if exceeded != "event_bytes":
            self._exhausted = exceeded
        self.dropped[exceeded] += 1
        return False

    @property
    def dropped_events(self) -> int:
        """Number of dropped events."""
        return sum(self.dropped.values())

    def _limit_exceeded_by(self, size: int) -> str | None:
        if size > self._event_bytes:
            return "event_bytes"
        if not self._events_left:
            return "events"
        return "event_data_bytes" if size > self._bytes_left else None


class EventReporter:
    """Sends the events of a step to its worker within the budget, until it is closed.

    It reports the number of dropped events whenever that is a power of two, so that the worker knows of them if the
    step is killed, and the exact number at the end.
    """

    def __init__(self, channel: Channel, budget: EventBudget) -> None:
        self._channel = channel
        self._budget = budget
        self._lock = _thread.allocate_lock()
        self._closed = False

    def send(self, payload: bytes) -> None:
        """Sends one event, or counts it as dropped."""
        with self._lock:
            if self._closed:
                raise RuntimeError("the step has returned and reports no more progress")
            if self._budget.admit(len(payload)):
                self._channel.send(PROGRESS, payload)
                return
            dropped = self._budget.dropped_events
            if dropped & (dropped - 1) == 0:
                self._send_dropped(final=False)

    def close(self) -> None:
        """Sends the exact number of dropped events if there are any; later events raise."""
        with self._lock:
            if not self._closed and self._budget.dropped_events:
                self._send_dropped(final=True)
            self._closed = True

    def _send_dropped(self, *, final: bool) -> None:
        self._channel.send(DROPPED, encode({"final": final, **self._budget.dropped}))
