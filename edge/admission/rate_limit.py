"""Requests per minute of each key, in fixed minutes of UTC. (SPEC.md, Per-key limits)."""

from typing import Final, NamedTuple, Protocol

from edge import metrics
from telemetry import Family

_MINUTE_MS: Final = 60_000


class Window(NamedTuple):
    """Where a key stands in the present minute, the call at hand included."""

    limit: int
    used: int
    reset_seconds: int
    """Seconds to the next minute, at least 1."""

    @property
    def full(self) -> bool:
        """Whether the call at hand is one too many."""
        return self.used > self.limit


class RateLimiter(Protocol):
    """Counts calls; each edge has one."""

    async def count(self, key_id: str, limit: int, now_ms: int) -> Window:
        """Count one call of a key and return where it stands."""
        ...

    def measured(self) -> list[Family]:
        """Return what tells of its state."""
        ...


class MinuteCounts:
    """How often each key called in one minute, in this process's memory."""

    def __init__(self) -> None:
        self._minute = -1
        self._used: dict[str, int] = {}

    def add(self, key_id: str, minute: int) -> int:
        """Count one call in a minute, numbered since the epoch, and return its number; another minute begins anew."""
        if minute != self._minute:
            self._minute = minute
            self._used.clear()
        used = self._used[key_id] = self._used.get(key_id, 0) + 1
        return used


class LocalRateLimiter:
    """Counts in this process's memory: right where there is one edge."""

    def __init__(self, counts: MinuteCounts | None = None) -> None:
        self._counts = counts or MinuteCounts()

    async def count(self, key_id: str, limit: int, now_ms: int) -> Window:
        """Count one call of a key and return where it stands."""
        minute, elapsed = divmod(now_ms, _MINUTE_MS)
        return Window(limit, self._counts.add(key_id, minute), -(-(_MINUTE_MS - elapsed) // 1000))

    def measured(self) -> list[Family]:
        """Return nothing of a limit that is not shared."""
        return [metrics.RATE_LIMIT_SHARED.with_values({})]
