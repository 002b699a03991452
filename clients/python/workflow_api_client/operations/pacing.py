"""Intervals between polls of the service."""

import math
from typing import Final

from workflow_api_client.clock import Clock

HELD_SECONDS: Final = 30
"""Most seconds for which the service holds an answer."""
POLL_SECONDS: Final = 5.0
"""Least seconds between two polls while the service does not hold answers."""

_EARLY_SECONDS: Final = 0.5


class PollPacer:
    """Pacer of the polls of one resource.

    Each poll asks the service to hold its answer. After an early answer without news the service did not hold it (an
    older service, or the key has reached its limit of held calls), and polls are five seconds apart until one is held.
    """

    def __init__(self, clock: Clock, deadline: float | None) -> None:
        self._clock = clock
        self._deadline = deadline
        self._begun = clock.now()
        self._asked = 0
        self._ignored = False

    def begin(self, *, held: bool = True) -> int:
        """Begins a poll; returns the seconds for which to ask the service to hold the answer."""
        self._begun = self._clock.now()
        left = HELD_SECONDS if self._deadline is None else math.ceil(max(0.0, self._deadline - self._begun))
        self._asked = min(HELD_SECONDS, left) if held else 0
        return self._asked

    def pause_after(self, *, news: bool) -> float:
        """Returns the seconds to wait after an answer, and notes whether the answer was held."""
        took = self._clock.now() - self._begun
        if not news and self._asked:
            self._ignored = took < self._asked - _EARLY_SECONDS
        if not self._ignored or not self._asked:
            return 0.0
        return max(0.0, POLL_SECONDS - took)
