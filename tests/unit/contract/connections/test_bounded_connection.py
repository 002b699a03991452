import asyncio
import logging

import pytest

from contract.connections.bounded_connection import BoundedConnection, Timeouts, WaitKind
from contract.connections.connection_watch import watch_connections

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

    monkeypatch.setattr("contract.connections.connection_watch.asyncio.sleep", tick)
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
