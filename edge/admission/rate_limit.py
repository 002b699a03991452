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
        """Returns the usage as a caller learns it so many seconds later; None in another minute, earlier ones too."""
        left = ceil(self.reset_seconds - seconds)
        return self._replace(reset_seconds=left) if 0 < left <= self.reset_seconds else None

    @property
    def header_lines(self) -> str:
        """Returns the lines that tell the caller (contract 6.7)."""
        limit, used, reset = self
        return (
            f"RateLimit-Limit: {limit}\r\n"
            f"RateLimit-Remaining: {limit - used if used < limit else 0}\r\n"
            f"RateLimit-Reset: {reset}\r\n"
        )


class RateLimiter(Protocol):
    """Counts the calls of keys."""

    def count(self, key_id: str, limit: int, now_ms: int) -> RateWindow | Awaitable[RateWindow]:
        """Counts one call of a key and returns its usage, at once where nobody else is asked."""
        ...

    def usage(self, key_id: str, limit: int, now_ms: int) -> RateWindow:
        """Returns the usage of a key as far as this process has counted it, without a call more."""
        ...

    def measured(self) -> list[Family]:
        """Returns its metrics."""
        ...


class MinuteCounts:
    """Numbers of calls by key in one minute, in the memory of this process."""

    def __init__(self) -> None:
        self._minute = -1
        self._used: dict[str, int] = {}

    def add(self, key_id: str, minute: int) -> int:
        """Counts one call in a minute, numbered since the epoch, and returns the count; another minute resets it."""
        if minute != self._minute:
            self._minute = minute
            self._used.clear()
        used = self._used[key_id] = self._used.get(key_id, 0) + 1
        return used

    def of(self, key_id: str, minute: int) -> int:
        """Returns the count of a minute."""
        return self._used.get(key_id, 0) if minute == self._minute else 0


class LocalRateLimiter:
    """Counts in the memory of this process: exact where there is one edge."""

    def __init__(self, counts: MinuteCounts | None = None) -> None:
        self._counts = counts or MinuteCounts()

    def count(self, key_id: str, limit: int, now_ms: int) -> RateWindow:
        """Counts one call of a key and returns its usage."""
        minute, elapsed = divmod(now_ms, _MINUTE_MS)
        return RateWindow(limit, self._counts.add(key_id, minute), -(-(_MINUTE_MS - elapsed) // 1000))

    def usage(self, key_id: str, limit: int, now_ms: int) -> RateWindow:
        """Returns the usage of a key without a call more."""
        minute, elapsed = divmod(now_ms, _MINUTE_MS)
        return RateWindow(limit, self._counts.of(key_id, minute), -(-(_MINUTE_MS - elapsed) // 1000))

    def measured(self) -> list[Family]:
        """Returns an empty gauge: the limit is not shared."""
        return [metrics.RATE_LIMIT_SHARED.with_values({})]
