"""Requests per minute of each key, in fixed minutes of UTC (contract 22.1, 22.2)."""

from collections.abc import Awaitable
from math import ceil
from typing import Final, NamedTuple, Protocol

from edge import metrics
from telemetry import Family

_MINUTE_MS: Final = 60_000


class RateWindow(NamedTuple):
    """Usage of a key in the current minute, including the current call."""

    limit: int
    used: int
    reset_seconds: int
    """Seconds to the next minute, at least 1."""

    def after(self, seconds: float) -> "RateWindow | None":
        """Returns the usage with the seconds left after `seconds` more; None outside of this minute."""
        left = ceil(self.reset_seconds - seconds)
        return self._replace(reset_seconds=left) if 0 < left <= self.reset_seconds else None

    @property
    def header_lines(self) -> str:
        """Returns the `RateLimit-*` header lines (contract 6.7)."""
        limit, used, reset = self
        return (
            f"RateLimit-Limit: {limit}\r\n"
            f"RateLimit-Remaining: {limit - used if used < limit else 0}\r\n"
            f"RateLimit-Reset: {reset}\r\n"
        )


class RateLimiter(Protocol):
    """Counts the calls of keys."""

    def count(self, key_id: str, limit: int, now_ms: int) -> RateWindow | Awaitable[RateWindow]:
        """Counts one call of a key and returns the key's usage, as an awaitable where another process counts."""
        ...

    def usage(self, key_id: str, limit: int, now_ms: int) -> RateWindow:
        """Returns the usage of a key as this process has counted it, without counting a call."""
        ...

    def measured(self) -> list[Family]:
        """Returns the limiter's metrics."""
        ...


class MinuteCounts:
    """Numbers of calls by key in one minute, in the memory of this process."""

    def __init__(self) -> None:
        self._minute = -1
        self._used: dict[str, int] = {}

    def add(self, key_id: str, minute: int) -> int:
        """Counts one call in a minute, numbered since the epoch, and returns the count; a new minute starts at 0."""
        if minute != self._minute:
            self._minute = minute
            self._used.clear()
        used = self._used[key_id] = self._used.get(key_id, 0) + 1
        return used

    def of(self, key_id: str, minute: int) -> int:
        """Returns a key's count in a minute."""
        return self._used.get(key_id, 0) if minute == self._minute else 0


class LocalRateLimiter:
    """Counts in the memory of this process: exact where there is one edge."""

    def __init__(self, counts: MinuteCounts | None = None) -> None:
        self._counts = counts or MinuteCounts()

    def count(self, key_id: str, limit: int, now_ms: int) -> RateWindow:
        """Counts one call of a key and returns the key's usage."""
        minute, elapsed = divmod(now_ms, _MINUTE_MS)
        return RateWindow(limit, self._counts.add(key_id, minute), -(-(_MINUTE_MS - elapsed) // 1000))

    def usage(self, key_id: str, limit: int, now_ms: int) -> RateWindow:
        """Returns the usage of a key without counting a call."""
        minute, elapsed = divmod(now_ms, _MINUTE_MS)
        return RateWindow(limit, self._counts.of(key_id, minute), -(-(_MINUTE_MS - elapsed) // 1000))

    def measured(self) -> list[Family]:
        """Returns an empty gauge: the limit is not shared."""
        return [metrics.RATE_LIMIT_SHARED.with_values({})]
