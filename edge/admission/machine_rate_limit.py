"""The rate limit of the edge processes of one command, counted in memory that they share: exact, without a server."""

from typing import Final

from edge import metrics
from edge.admission.rate_limit import Window
from edge.shared_memory.minute_counts import MinuteCount, SharedMinuteCounts
from telemetry import Family

_MINUTE_MS: Final = 60_000


class MachineRateLimiter:
    """Counts the calls of keys at all these processes, by the clock of the machine at the time of the count."""

    def __init__(self, counts: SharedMinuteCounts) -> None:
        self._counts = counts

    def count(self, key_id: str, limit: int, now_ms: int) -> Window:  # noqa: ARG002 - counted at a later time
        """Counts one call of a key and returns its usage."""
        return _window(limit, self._counts.add(key_id))

    def usage(self, key_id: str, limit: int, now_ms: int) -> Window:  # noqa: ARG002 - of the time of the question
        """Returns the usage of a key at all processes, without a call more."""
        return _window(limit, self._counts.of(key_id))

    def measured(self) -> list[Family]:
        """Returns its metrics."""
        return [metrics.RATE_LIMIT_SHARED.with_value(1)]


def _window(limit: int, counted: MinuteCount) -> Window:
    return Window(limit, counted.used, -(-(_MINUTE_MS - counted.now_ms % _MINUTE_MS) // 1000))
