"""When another template of an environment may be started: now, after a pause, or not at all."""

from collections import deque
from typing import Final

FIRST_PAUSE_SECONDS: Final = 1.0
MOST_PAUSE_SECONDS: Final = 300.0
"""Pause after a start that failed for a passing reason; it doubles with each that follows, up to the second."""
MOST_FAULTS: Final = 3
FAULT_WINDOW_SECONDS: Final = 3_600.0
"""After so many faulty templates of an environment within that time, none is started until the first is that old."""

_MOST_DOUBLINGS: Final = 16


class StartPolicy:
    """The rule for one environment. Times are seconds of one monotonic clock. Not thread-safe."""

    def __init__(self) -> None:
        self._refused = False
        self._failures = 0
        self._not_before = float("-inf")
        self._faults: deque[float] = deque(maxlen=MOST_FAULTS)

    def may_start(self, now: float) -> bool:
        """Returns whether a template may be started now."""
        return now >= self._not_before and not self.ruled_out(now)

    def ruled_out(self, now: float) -> bool:
        """Returns whether more than a pause forbids it: a refusal, or too many faults."""
        faults = len(self._faults) == MOST_FAULTS and now - self._faults[0] < FAULT_WINDOW_SECONDS
        return self._refused or faults

    def blank(self, now: float) -> bool:
        """Returns whether it says the same as that of an environment which was never used."""
        recent = bool(self._faults) and now - self._faults[-1] < FAULT_WINDOW_SECONDS
        return not (self._refused or self._failures or recent)

    def refuse(self) -> None:
        """Forbids every later start."""
        self._refused = True

    def failed(self, now: float) -> float:
        """Counts a start that failed for a passing reason; returns the seconds until the next may be tried."""
        pause = min(FIRST_PAUSE_SECONDS * 2.0 ** min(self._failures, _MOST_DOUBLINGS), MOST_PAUSE_SECONDS)
        self._failures += 1
        self._not_before = now + pause
        return pause

    def started(self) -> None:
        """Resets the pause after failures, once a start has succeeded."""
        self._failures = 0

    def add_fault(self, now: float) -> None:
        """Counts a template that was found faulty while it served."""
        self._faults.append(now)
