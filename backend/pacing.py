"""Bounds how often something is done, without holding up what is done rarely.

After each message about changed runs there was a pause, and a run that ended within one waited for the rest of it. A
caller alone, who starts a run and waits for its end, so got no more than one in two pauses, 10 ms. (`python -m
benchmarks`: a one-step run alone.)
"""

from collections.abc import Callable
from time import monotonic


class Pace:
    """Once in so many seconds on average; up to `burst` times more after a time in which nothing was done."""

    def __init__(self, seconds: float, burst: int, clock: Callable[[], float] = monotonic) -> None:
        self._seconds = seconds
        self._credit = burst * seconds
        self._clock = clock
        self._due = clock() - self._credit

    def pause(self) -> float:
        """Counts one that was done; returns the seconds until the next may be."""
        now = self._clock()
        self._due = max(self._due, now - self._credit) + self._seconds
        return max(0.0, self._due - now)
