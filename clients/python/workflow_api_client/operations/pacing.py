"""Intervals between the polls of something that changes."""

import math
from typing import Final

from workflow_api_client.clock import Clock

HELD_SECONDS: Final = 30
"""The longest that the service holds an answer."""
POLL_SECONDS: Final = 5.0
"""The shortest time between two polls where the service does not hold answers."""

_EARLY_SECONDS: Final = 0.5


class Pace:
    """Spaces the polls of one thing.

    Each asks the service to hold its answer. If one comes back early and without news, the service did not hold it (an
    older one, or the key has as many held calls as it may have), and polls are five seconds apart until one is held.
    """

    def __init__(self, clock: Clock, deadline: float | None) -> None:
        self._clock = clock
        self._deadline = deadline
        self._begun = clock.now()
        self._asked = 0
        self._ignored = False

    def begin(self, *, held: bool = True) -> int:
        """Returns for how many seconds the poll that begins now asks to be held."""
        self._begun = self._clock.now()
        left = HELD_SECONDS if self._deadline is None else math.ceil(max(0.0, self._deadline - self._begun))
        self._asked = min(HELD_SECONDS, left) if held else 0
        return self._asked

    def pause_after(self, *, news: bool) -> float:
        """Returns the seconds to let pass after an answer, and takes note of whether it was held."""
        took = self._clock.now() - self._begun
        if not news and self._asked:
            self._ignored = took < self._asked - _EARLY_SECONDS
        if not self._ignored or not self._asked:
            return 0.0
        return max(0.0, POLL_SECONDS - took)
