"""Notices that the wall clock was set, or that it went on while this machine was suspended."""

from collections.abc import Callable
from math import inf
from time import monotonic
from typing import Final

from backend.clock import Clock

_STEP_MS: Final = 1_000


class ClockSteps:
    """Compares the wall clock with one that nobody sets. Not thread-safe."""

    def __init__(self, clock: Clock, steady: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._steady = steady
        self._offset_ms: float | None = None
        self._stepped_at = -inf

    def ms_since_last(self) -> float:
        """Returns how long ago a call first saw a step of at least a second; infinity for none since this was made."""
        now = self._steady()
        offset_ms = self._clock() - now * 1000
        if self._offset_ms is not None and abs(offset_ms - self._offset_ms) >= _STEP_MS:
            self._stepped_at = now
        self._offset_ms = offset_ms
        return (now - self._stepped_at) * 1000
