import asyncio
import logging

import pytest

from contract.connections import (
    BoundedConnection,
    BufferLimiter,
    ConnectionLimiter,
    Timeouts,
    WaitKind,
    watch_connections,
)

TIMEOUTS = Timeouts(idle=10, head=5, stall=3)


class FakeConnection(BoundedConnection):
    def __init__(self, wait_kind: WaitKind = WaitKind.NOTHING, waiting_since: float = 0.0) -> None:
        self.wait_kind = wait_kind
        self.waiting_since = waiting_since
        self.evicted = False

    def evict(self) -> None:
        self.evicted = True


@pytest.mark.parametrize(
    ("wait_kind", "seconds"), [(WaitKind.REQUEST, 10), (WaitKind.HEAD, 5), (WaitKind.READER, 3)], ids=str
)
def test_each_kind_of_wait_has_a_timeout_of_its_own(wait_kind: WaitKind, seconds: float) -> None:
    connection = FakeConnection(wait_kind, 100.0)
    connection.evict_if_overdue(100.0 + seconds, TIMEOUTS)
    assert not connection.evicted
    connection.evict_if_overdue(100.1 + seconds, TIMEOUTS)
    assert connection.evicted


@pytest.mark.parametrize(("wait_kind", "since"), [(WaitKind.NOTHING, 0.0), (WaitKind.BODY, 1.0)])
def test_what_is_bounded_elsewhere_is_not_evicted(wait_kind: WaitKind, since: float) -> None:
    connection = FakeConnection(wait_kind, since)
    connection.evict_if_overdue(1e9, TIMEOUTS)
    assert not connection.evicted


def test_time_inside_of_waiting_is_the_callers() -> None:
    async def attempt() -> None:
        connection = FakeConnection()
        with connection.waiting(WaitKind.BODY):
            assert connection.wait_kind is WaitKind.BODY
            assert connection.waiting_since > 0
        assert (connection.wait_kind, connection.waiting_since) == (WaitKind.NOTHING, 0.0)

    asyncio.run(attempt())


async def watched_for_rounds(
    rounds: int, connections: list[BoundedConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Watch so many times, with one more connection evicted each time."""
    done = 0

    async def tick(_: float) -> None:
        nonlocal done
        done += 1
        if done > rounds:
            raise asyncio.CancelledError

    monkeypatch.setattr("contract.connections.asyncio.sleep", tick)
    with pytest.raises(asyncio.CancelledError):
        await watch_connections(lambda: connections, TIMEOUTS, lambda: done)


def test_the_watch_evicts_overdue_connections_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    overdue, busy = FakeConnection(WaitKind.HEAD, -1e9), FakeConnection()
    asyncio.run(watched_for_rounds(1, [overdue, busy], monkeypatch))
    assert overdue.evicted
    assert not busy.evicted


def test_the_watch_goes_on_after_a_failure(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    broken = BoundedConnection()
    broken.wait_kind, broken.waiting_since = WaitKind.REQUEST, -1e9
    asyncio.run(watched_for_rounds(3, [broken], monkeypatch))
    assert caplog.text.count("could not be checked") == 3


def test_evictions_are_logged_in_few_lines(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        asyncio.run(watched_for_rounds(100, [], monkeypatch))
    assert 1 < len(caplog.records) < 10


BIG = 100_000


class LimitedConnection:
    def __init__(self, waiting_since: float = 0.0) -> None:
        self.waiting_since = waiting_since
        self.reserved_bytes = 0
        self.stopped = self.evicted = False

    def evict(self) -> None:
        self.evicted = True

    def stop_waiting(self) -> None:
        self.stopped = True


def admit(limiter: ConnectionLimiter[LimitedConnection], *connections: LimitedConnection) -> list[bool]:
    return [limiter.admit(connection) for connection in connections]


def test_a_newcomer_replaces_the_connection_that_waits_longest() -> None:
    limiter = ConnectionLimiter[LimitedConnection](3)
    connections = [LimitedConnection(waiting_since) for waiting_since in (30.0, 10.0, 0.0, 0.0)]
    assert admit(limiter, *connections) == [True] * 4
    assert [connection.evicted for connection in connections] == [False, True, False, False]
    assert limiter.evicted == 1


def test_a_newcomer_is_evicted_when_all_others_are_being_served() -> None:
    limiter = ConnectionLimiter[LimitedConnection](2)
    busy, newcomer = [LimitedConnection(), LimitedConnection()], LimitedConnection(50.0)
    assert admit(limiter, *busy, newcomer) == [True, True, False]
    assert newcomer.evicted
    assert not any(connection.evicted for connection in busy)


def test_several_are_evicted_together_so_that_few_newcomers_sort_all_connections() -> None:
    limiter = ConnectionLimiter[LimitedConnection](100)
    connections = [LimitedConnection(1.0 + number) for number in range(101)]
    admit(limiter, *connections)
    assert [connection.evicted for connection in connections] == [True] * 6 + [False] * 95


def test_a_connection_that_has_ended_takes_no_place() -> None:
    limiter = ConnectionLimiter[LimitedConnection](1)
    first, second = LimitedConnection(1.0), LimitedConnection()
    limiter.admit(first)
    limiter.leave(first)
    limiter.admit(second)
    assert not first.evicted
    assert limiter.connections == {second}


Limiter = BufferLimiter[LimitedConnection]


def limiter_of(*connections: LimitedConnection, limit: int = 10 * BIG, now: float = 100.0) -> Limiter:
    return BufferLimiter(limit, connections, lambda: now)


def test_bytes_are_kept_up_to_the_limit() -> None:
    connection = LimitedConnection()
    limiter = limiter_of(connection)
    assert [limiter.reserve(connection, BIG) for _ in range(11)] == [True] * 10 + [False]


def test_the_connection_that_waits_longest_loses_its_bytes() -> None:
    slow, slower, busy = LimitedConnection(20.0), LimitedConnection(10.0), LimitedConnection()
    newcomer = LimitedConnection(99.9)
    limiter = limiter_of(slow, slower, busy, newcomer)
    for connection in (slow, slower, busy):
        assert limiter.reserve(connection, 3 * BIG)
    assert limiter.reserve(newcomer, 2 * BIG)
    assert [connection.stopped for connection in (slow, slower, busy, newcomer)] == [False, True, False, False]
    assert (slow.reserved_bytes, slower.reserved_bytes, limiter.evicted) == (3 * BIG, 0, 1)


def test_a_wait_that_has_just_begun_is_not_ended_and_the_newcomer_is_refused() -> None:
    prompt, newcomer = LimitedConnection(99.5), LimitedConnection()
    limiter = limiter_of(prompt, newcomer, now=100.0)
    assert limiter.reserve(prompt, 10 * BIG)
    assert not limiter.reserve(newcomer, BIG)
    assert not prompt.stopped


def test_few_bytes_are_always_kept() -> None:
    busy, small = LimitedConnection(), LimitedConnection()
    limiter = limiter_of(busy, small)
    assert limiter.reserve(busy, 10 * BIG)
    assert limiter.reserve(small, 1000)
    assert not limiter.reserve(small, BIG)


def test_released_bytes_can_be_held_again() -> None:
    connection = LimitedConnection()
    limiter = limiter_of(connection)
    assert limiter.reserve(connection, 10 * BIG)
    limiter.release(connection, BIG)
    assert limiter.reserve(connection, BIG)
    limiter.release(connection)
    limiter.release(connection, BIG)
    assert (connection.reserved_bytes, limiter.reserved_bytes) == (0, 0)
    assert limiter.reserve(connection, 10 * BIG)
