"""Rate limits that several edges share, counted in Redis and by its clock.

While Redis is unavailable every edge counts alone and goes on serving. An edge counts locally also while Redis
answers, so that no key ever exceeds its limit at any one edge.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import repeat
from typing import Final, NamedTuple

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from edge import metrics
from edge.admission.rate_limit import LocalRateLimiter, MinuteCounts, RateWindow
from telemetry import Family

# One script for all waiting calls. The minute is part of the name, so that a clock that steps back cannot reuse a full
# one; the braces keep the names of a key on one shard.
_COUNT: Final = """
local second = tonumber(redis.call('TIME')[1])
local minute = math.floor(second / 60)
local answer = {minute, 60 - second % 60}
for place, key in ipairs(KEYS) do
  local name = 'workflow_api:rate:{' .. key .. '}:' .. minute
  local used = redis.call('INCR', name)
  if used == 1 then redis.call('EXPIRE', name, 120) end
  answer[place + 2] = used
end
return answer
"""

_PROBE: Final = "probe"
_ANSWER_SECONDS: Final = 0.5
_FIRST_DELAY: Final = 0.1
_LONGEST_DELAY: Final = 5.0

_CODE: Final = re.compile(r"[A-Z]{3,20}(?= )")

_LOG = logging.getLogger(__name__)


class _RedisCount(NamedTuple):
    """Redis's count of one call: minute since the epoch, seconds to the next, calls in this minute."""

    minute: int
    reset_seconds: int
    used: int


_Calls = list[tuple[str, asyncio.Future[_RedisCount | None]]]


class RedisRateLimiter:
    """Counts in Redis; while Redis is unavailable, in the memory of this process.

    One exchange is under way at a time and counts every call that waits: the busier, the fewer exchanges per call.
    """

    def __init__(self, url: Callable[[], str]) -> None:
        """Starts counting, in the running loop.

        `url` returns the address of Redis; it is called again after each failure, so that a password may change.
        """
        self._url = url
        self._counts = MinuteCounts()
        self._local = LocalRateLimiter(self._counts)
        self._waiting: _Calls = []
        self._wanted = asyncio.Event()
        self._available = True
        self._redis: Redis | None = None
        self._task = asyncio.create_task(self._run())

    async def count(self, key_id: str, limit: int, now_ms: int) -> RateWindow:
        """Counts one call of a key and returns the key's usage."""
        counted = await self._shared(key_id) if self._available else None
        if counted is None:
            return self._local.count(key_id, limit, now_ms)
        # Redis may have been unavailable or have lost its counts; this edge has not.
        used = max(counted.used, self._counts.add(key_id, counted.minute))
        return RateWindow(limit, used, counted.reset_seconds)

    def usage(self, key_id: str, limit: int, now_ms: int) -> RateWindow:
        """Returns the usage of a key at this edge alone: Redis is not asked without a call to count."""
        return self._local.usage(key_id, limit, now_ms)

    def measured(self) -> list[Family]:
        """Returns the limiter's metrics."""
        return [metrics.RATE_LIMIT_SHARED.with_value(int(self._available))]

    async def close(self) -> None:
        """Counts in this process alone from now on, and disconnects."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._give_up()
        with suppress(RedisError, OSError):
            await self._disconnect()

    async def _shared(self, key_id: str) -> _RedisCount | None:
        future: asyncio.Future[_RedisCount | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((key_id, future))
        self._wanted.set()
        return await future

    async def _run(self) -> None:
        delay = _FIRST_DELAY
        while True:
            try:
                await self._disconnect()
                redis = self._redis = Redis.from_url(self._url(), retry=Retry(NoBackoff(), 0))
                # A replica, or a full Redis, would answer a ping.
                await _count(redis, [_PROBE])
                if not self._available:
                    _LOG.warning("Redis is available again, rate limits are shared")
                self._available, delay = True, _FIRST_DELAY
                while True:
                    await self._wanted.wait()
                    await self._exchange(redis)
            except Exception as error:  # noqa: BLE001 - after any failure calls are counted here until a retry succeeds
                metrics.RATE_LIMIT_FAILURES.add()
                if self._available:
                    _LOG.warning("Redis is unavailable, each edge counts rate limits alone: %s", _kind_of(error))
                self._give_up()
            await asyncio.sleep(delay)
            delay = min(2 * delay, _LONGEST_DELAY)

    async def _disconnect(self) -> None:
        redis, self._redis = self._redis, None
        if redis is not None:
            await redis.aclose()

    async def _exchange(self, redis: Redis) -> None:
        calls = self._take()
        try:
            minute, reset_seconds, *numbers = await _count(redis, [key_id for key_id, _ in calls])
            _settle(calls, [_RedisCount(minute, reset_seconds, used) for used in numbers])
        except BaseException:
            _settle(calls, repeat(None))
            raise

    def _take(self) -> _Calls:
        self._wanted.clear()
        calls, self._waiting = self._waiting, []
        return calls

    def _give_up(self) -> None:
        self._available = False
        _settle(self._take(), repeat(None))


async def _count(redis: Redis, key_ids: Sequence[str]) -> Sequence[int]:
    async with asyncio.timeout(_ANSWER_SECONDS):
        answer: Sequence[int] = await redis.eval(_COUNT, len(key_ids), *key_ids)
    return answer


def _kind_of(error: Exception) -> str:
    """Returns the name of an error without its message, which may quote the command with the password."""
    code = _CODE.match(str(error))
    return type(error).__name__ + (f" {code[0]}" if code else "")


def _settle(calls: _Calls, answers: Iterable[_RedisCount | None]) -> None:
    for (_, future), answer in zip(calls, answers, strict=False):
        # The wait of a caller that has disconnected was cancelled.
        if not future.done():
            future.set_result(answer)
