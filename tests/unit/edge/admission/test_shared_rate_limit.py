import asyncio
import logging
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest

from edge.admission.rate_limit import RateWindow
from edge.admission.shared_rate_limit import RedisRateLimiter
from tests.support.poll import until, within_one_minute
from tests.support.redis_server import PASSWORD, RedisServer

PROCESSES, EACH = 4, 250
# One edge process: it counts so many calls of a key, eight at a time, and prints the number that each was given.
COUNTING = """
import asyncio, sys
from edge.admission.shared_rate_limit import RedisRateLimiter

async def main(url, key_id, calls):
    limiter = RedisRateLimiter(lambda: url)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    async def some():
        return [(await limiter.count(key_id, 1, 0)).used for _ in range(calls // 8 + 1)]
    print(*[used for part in await asyncio.gather(*(some() for _ in range(8))) for used in part])
    await limiter.close()

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


def now() -> int:
    return int(time.time() * 1000)


def new_key() -> str:
    return f"ak_{uuid4().hex[:12]}"


@asynccontextmanager
async def limiting(url: str | Callable[[], str], edges: int = 1) -> AsyncIterator[list[RedisRateLimiter]]:
    limiters = [RedisRateLimiter(url if callable(url) else lambda: url) for _ in range(edges)]
    try:
        yield limiters
    finally:
        for limiter in limiters:
            await limiter.close()


async def numbers(limiter: RedisRateLimiter, key_id: str, calls: int, limit: int = 100) -> list[int]:
    return [(await limiter.count(key_id, limit, now())).used for _ in range(calls)]


async def eventually(probe: Callable[[], Awaitable[bool]], what: str) -> None:
    loop = asyncio.get_running_loop()

    async def probed() -> bool:
        return await probe()

    await asyncio.to_thread(until, lambda: asyncio.run_coroutine_threadsafe(probed(), loop).result(60), what)


def in_one_minute(attempt: Callable[[], Awaitable[None]]) -> None:
    """Tries again what a change of the minute fell into, whatever it found."""

    async def attempted() -> AssertionError | None:
        try:
            await attempt()
        except AssertionError as failed:
            return failed
        return None

    failed = within_one_minute(lambda: asyncio.run(attempted()))
    if failed is not None:
        raise failed


def test_edges_share_a_limit_and_keys_do_not(redis_url: str) -> None:
    async def attempt() -> None:
        one_key, other_key = new_key(), new_key()
        async with limiting(redis_url, 2) as (one, other):
            assert await numbers(one, one_key, 2) == [1, 2]
            assert await numbers(other, one_key, 1) == [3]
            assert await numbers(other, other_key, 1) == [1]

    in_one_minute(attempt)


def test_the_count_is_exact_over_processes(redis_url: str) -> None:
    def attempt() -> list[int]:
        command = [sys.executable, "-c", COUNTING, redis_url, new_key(), str(EACH)]
        edges = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(PROCESSES)
        ]
        for edge in edges:
            assert edge.stdout
            assert edge.stdout.readline() == "ready\n"
        said = [edge.communicate("go\n", timeout=60)[0] for edge in edges]
        return sorted(int(number) for line in said for number in line.split())

    counted = within_one_minute(attempt)
    assert counted == list(range(1, len(counted) + 1))
    assert len(counted) >= PROCESSES * EACH


def test_the_minute_is_that_of_redis(redis_url: str) -> None:
    """A wrong clock of an edge changes nothing."""

    async def attempt() -> None:
        key_id, hour = new_key(), 3_600_000
        most = 60 - int(time.time()) % 60
        async with limiting(redis_url) as (limiter,):
            windows = [await limiter.count(key_id, 1, now() + wrong) for wrong in (-hour, 0, hour)]
        assert [window.used for window in windows] == [1, 2, 3]
        least = 60 - int(time.time()) % 60
        assert all(least <= window.reset_seconds <= most + 2 for window in windows)

    in_one_minute(attempt)


def test_counts_leave_redis_by_themselves(own_redis: RedisServer) -> None:
    async def attempt() -> None:
        async with limiting(own_redis.url) as (limiter,):
            await limiter.count(new_key(), 1, now())

    own_redis.start()
    in_one_minute(attempt)
    names = own_redis.ask("keys", "*").split()
    assert names
    assert all(0 < int(own_redis.ask("ttl", name)) <= 120 for name in names)


def test_without_redis_each_edge_counts_alone(caplog: pytest.LogCaptureFixture, own_redis: RedisServer) -> None:
    """What was counted before still counts, so no key gets more than the limit from one edge; one line is logged."""

    async def attempt() -> None:
        caplog.clear()
        key_id = new_key()
        own_redis.start()
        async with limiting(own_redis.url, 2) as (one, other):
            assert await numbers(one, key_id, 3) == [1, 2, 3]
            assert await numbers(other, key_id, 1) == [4]
            own_redis.stop()
            assert await numbers(one, key_id, 3) == [4, 5, 6]
            assert await numbers(other, key_id, 1) == [2]

    with caplog.at_level(logging.INFO):
        in_one_minute(attempt)
    assert [record.message.partition(":")[0] for record in caplog.records if record.name.startswith("edge")] == [
        "Redis is unavailable, each edge counts rate limits alone"
    ] * 2
    assert PASSWORD not in caplog.text


def test_limits_are_shared_again_after_an_outage(caplog: pytest.LogCaptureFixture, own_redis: RedisServer) -> None:
    """It has forgotten what was counted; an edge has not."""

    async def attempt() -> None:
        key_id = new_key()
        own_redis.start()
        async with limiting(own_redis.url, 2) as (one, other):
            assert await numbers(one, key_id, 4) == [1, 2, 3, 4]
            own_redis.stop()
            assert await numbers(one, key_id, 1) == [5]
            own_redis.start()

            async def is_shared() -> bool:
                probe = new_key()
                await one.count(probe, 1, now())
                return (await other.count(probe, 1, now())).used == 2

            await eventually(is_shared, "a shared count")
            assert await numbers(other, key_id, 1) == [1]
            assert await numbers(one, key_id, 1) == [6]

    with caplog.at_level(logging.WARNING):
        in_one_minute(attempt)
    assert "rate limits are shared" in caplog.text


def test_redis_that_hangs_holds_up_nobody_for_long(own_redis: RedisServer) -> None:
    async def attempt() -> None:
        own_redis.start()
        async with limiting(own_redis.url) as (limiter,):
            key_id = new_key()
            assert await numbers(limiter, key_id, 1) == [1]
            own_redis.freeze()
            async with asyncio.timeout(30):
                waiting = await asyncio.gather(*(limiter.count(key_id, 100, now()) for _ in range(50)))
                assert sorted(window.used for window in waiting) == list(range(2, 52))
                assert await numbers(limiter, key_id, 1000) == list(range(52, 1052))

    in_one_minute(attempt)


def test_redis_that_cannot_be_written_counts_as_unavailable(
    caplog: pytest.LogCaptureFixture, own_redis: RedisServer
) -> None:
    own_redis.start()
    own_redis.ask("config", "set", "min-replicas-to-write", "1")

    async def attempt() -> None:
        async with limiting(own_redis.url, 2) as (one, other):
            key_id = new_key()
            assert await numbers(one, key_id, 2) == [1, 2]
            assert await numbers(other, key_id, 2) == [1, 2]

    with caplog.at_level(logging.WARNING):
        in_one_minute(attempt)
    assert "NOREPLICAS" in caplog.text


def test_a_changed_password_is_taken_up(own_redis: RedisServer) -> None:
    own_redis.start()

    async def attempt() -> None:
        urls = [own_redis.url.replace(PASSWORD, "wrong")]
        async with limiting(lambda: urls[-1]) as (limiter,), limiting(own_redis.url) as (right,):
            assert (await limiter.count(new_key(), 1, now())).used == 1
            urls.append(own_redis.url)

            async def is_shared() -> bool:
                probe = new_key()
                await right.count(probe, 1, now())
                return (await limiter.count(probe, 1, now())).used == 2

            await eventually(is_shared, "a shared count")

    in_one_minute(attempt)


def test_a_caller_that_disconnects_delays_nobody(redis_url: str) -> None:
    async def attempt() -> None:
        async with limiting(redis_url) as (limiter,):
            key_id = new_key()
            gone = [asyncio.create_task(limiter.count(key_id, 9, now())) for _ in range(3)]
            await asyncio.sleep(0)
            for task in gone:
                task.cancel()
            assert (await limiter.count(key_id, 9, now())).used <= 9

    asyncio.run(attempt())


def test_an_edge_that_ends_lets_its_calls_go(own_redis: RedisServer) -> None:
    async def attempt() -> RateWindow:
        own_redis.start()
        limiter = RedisRateLimiter(lambda: own_redis.url)
        own_redis.freeze()
        waiting = asyncio.create_task(limiter.count(new_key(), 9, now()))
        await asyncio.sleep(0)
        await limiter.close()
        return await waiting

    assert asyncio.run(attempt()).used == 1
