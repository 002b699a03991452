"""The limit that several edges share, counted in Redis and by its clock.

The limit protects; it is not worth an outage. While Redis is away every edge counts by itself and goes on serving, and
since it also counts for itself while Redis answers, no key ever gets more than its limit from any one edge.
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
from edge.admission.rate_limit import LocalRateLimiter, MinuteCounts, Window
from telemetry import Family

# One call for all that wait. The minute is part of the name, so that a clock that steps back cannot revive a full one;
# the braces keep a key's names together in whatever shards them.
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
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0

_CODE: Final = re.compile(r"[A-Z]{3,20}(?= )")

_LOG = logging.getLogger(__name__)


class _Counted(NamedTuple):
    """What Redis says of one call: the minute since the epoch, the seconds to the next, its number in this one."""

    minute: int
    reset_seconds: int
    used: int


_Calls = list[tuple[str, asyncio.Future[_Counted | None]]]


class RedisRateLimiter:
    """Counts in Redis; while that is away, in this process's memory.

    One exchange is under way at a time and takes along every call that waits: exact, and the cheaper the busier.
    """

    def __init__(self, url: Callable[[], str]) -> None:
        """Begin to count, in the running loop.

        `url` gives the address of Redis; it is asked again after each failure, so that a password may change.
        """
        self._url = url
        self._counts = MinuteCounts()
        self._local = LocalRateLimiter(self._counts)
        self._waiting: _Calls = []
        self._wanted = asyncio.Event()
        self._present = True
        self._redis: Redis | None = None
        self._task = asyncio.create_task(self._run())

    async def count(self, key_id: str, limit: int, now_ms: int) -> Window:
        """Count one call of a key and return where it stands."""
        counted = await self._shared(key_id) if self._present else None
        if counted is None:
            return await self._local.count(key_id, limit, now_ms)
        # Redis may have been away, or have forgotten; this edge has not.
        used = max(counted.used, self._counts.add(key_id, counted.minute))
        return Window(limit, used, counted.reset_seconds)

    def measured(self) -> list[Family]:
        """Return whether Redis counts."""
        return [metrics.RATE_LIMIT_SHARED.with_value(int(self._present))]

    async def close(self) -> None:
        """Count in this process alone from now on."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._leave()
        with suppress(RedisError, OSError):
            await self._hang_up()

    async def _shared(self, key_id: str) -> _Counted | None:
        future: asyncio.Future[_Counted | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((key_id, future))
        self._wanted.set()
        return await future

    async def _run(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            try:
                await self._hang_up()
                redis = self._redis = Redis.from_url(self._url(), retry=Retry(NoBackoff(), 0))
                # What is only read, or full, would answer a ping.
                await _count(redis, [_PROBE])
                if not self._present:
                    _LOG.warning("Redis is back, rate limits are shared again")
                self._present, pause = True, _FIRST_PAUSE
                while True:
                    await self._wanted.wait()
                    await self._exchange(redis)
            except Exception as error:  # noqa: BLE001 - whatever breaks, calls are counted here and it is tried again
                metrics.RATE_LIMIT_FAILURES.add()
                if self._present:
                    _LOG.warning("Redis is away, each edge counts rate limits alone: %s", _kind_of(error))
                self._leave()
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _hang_up(self) -> None:
        redis, self._redis = self._redis, None
        if redis is not None:
            await redis.aclose()

    async def _exchange(self, redis: Redis) -> None:
        calls = self._take()
        try:
            minute, reset_seconds, *numbers = await _count(redis, [key_id for key_id, _ in calls])
            _settle(calls, [_Counted(minute, reset_seconds, used) for used in numbers])
        except BaseException:
            _settle(calls, repeat(None))
            raise

    def _take(self) -> _Calls:
        self._wanted.clear()
        calls, self._waiting = self._waiting, []
        return calls

    def _leave(self) -> None:
        self._present = False
        _settle(self._take(), repeat(None))


async def _count(redis: Redis, key_ids: Sequence[str]) -> Sequence[int]:
    async with asyncio.timeout(_ANSWER_SECONDS):
        answer: Sequence[int] = await redis.eval(_COUNT, len(key_ids), *key_ids)
    return answer


def _kind_of(error: Exception) -> str:
    """Say what keeps Redis from counting; its own words may quote the command in which it got the password."""
    code = _CODE.match(str(error))
    return type(error).__name__ + (f" {code[0]}" if code else "")


def _settle(calls: _Calls, answers: Iterable[_Counted | None]) -> None:
    for (_, future), answer in zip(calls, answers, strict=False):
        # A caller that has gone waits no longer.
        if not future.done():
            future.set_result(answer)
