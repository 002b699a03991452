"""Notices that the wall clock was set, or that it went on while this machine was suspended."""

from collections.abc import Callable
from time import monotonic
from typing import Final, NamedTuple

from backend.clock import Clock

_STEP_MS: Final = 1_000


class ClockReading(NamedTuple):
    """A time of the wall clock, and how long there was no step of it, as far as the readings tell. Milliseconds."""

    now: int
    since_step: float


class ClockSteps:
    """Compares the wall clock, which may be a server's, with one that nobody sets. Not thread-safe."""

    def __init__(self, clock: Clock, steady: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._steady = steady
        self._offset_ms: float | None = None
        self._error_ms = 0.0
        # A step just before cannot be told from none.
        self._stepped_at = steady()

    def read(self) -> ClockReading:
        """Reads both clocks: they step apart by a second or more, and by more than the readings may be wrong."""
        before = self._steady()
        now = self._clock()
        after = self._steady()
        offset_ms, error_ms = now - (before + after) * 500, (after - before) * 500
        if self._offset_ms is not None and abs(offset_ms - self._offset_ms) >= _STEP_MS + error_ms + self._error_ms:
            self._stepped_at = after
        self._offset_ms, self._error_ms = offset_ms, error_ms
        return ClockReading(now, (after - self._stepped_at) * 1000)
