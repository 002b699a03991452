"""Wakes the thread in which DBOS polls a queue, which it does by the clock alone.

A worker hears of what was put into the queue by a notice of the database, and polls at once: without it a run waits
for half of a polling interval. The polling goes on, should a notice be lost or DBOS wait in another way.
(`python -m benchmarks.postgresql`: start answered to first step running.)
"""

import threading
from collections.abc import Iterable


class QueueWaking:
    """Lets `wake` end the pause of the thread of this name, which pauses by waiting for one of the events to be set."""

    def __init__(self, stops: Iterable[threading.Event], thread: str) -> None:
        self._thread = thread
        self._woken = threading.Event()
        for stop in stops:
            self._make_wakeable(stop)

    def wake(self) -> None:
        """Ends the present pause, or the next one; from any thread."""
        self._woken.set()

    def _make_wakeable(self, stop: threading.Event) -> None:
        wait_for_stop = stop.wait

        def wait(timeout: float | None = None) -> bool:
            if threading.current_thread().name != self._thread:
                return wait_for_stop(timeout)
            # A stop is seen after the pause, which is short.
            self._woken.wait(timeout)
            self._woken.clear()
            return stop.is_set()

        stop.wait = wait  # type: ignore[method-assign]  # of this event alone
