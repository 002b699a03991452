"""A thread that runs its work when woken, and periodically."""

import logging
import threading
from collections.abc import Callable
from typing import Final

from backend import metrics
from backend.storage.outage import RepeatedRounds

_LOG = logging.getLogger(__name__)

TICK_SECONDS: Final = 0.5
"""The period of rounds that look for changes of other processes."""


class Ticker:
    """Calls `work` after each `wake`, and `seconds` after its last call ended; several wakes may share one call.

    The first call is at once, or `first_seconds` after the start.

    An exception from `work` is logged once an outage, and the thread goes on.
    """

    def __init__(self, name: str, work: Callable[[], object], seconds: float, first_seconds: float = 0.0) -> None:
        self._work = work
        self._seconds = seconds
        self._first_seconds = first_seconds
        self._woken = threading.Event()
        self._ended = False
        self._rounds = RepeatedRounds(_LOG, f"Rounds of {name} fail", f"Rounds of {name} succeed again", logging.ERROR)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Runs the work now; from any thread, also before the start."""
        self._woken.set()

    def stop(self) -> None:
        """Ends the thread after the present call."""
        self._ended = True
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        if self._first_seconds:
            self._woken.wait(self._first_seconds)
        while not self._ended:
            self._woken.clear()
            try:
                self._work()
            except Exception as error:  # noqa: BLE001 - the thread must not end
                metrics.BACKGROUND_FAILURES.add(self._thread.name)
                self._rounds.failed(error)
            else:
                self._rounds.succeeded()
            # Checked again because a stop may have come before the clearing.
            if not self._ended:
                self._woken.wait(self._seconds)
