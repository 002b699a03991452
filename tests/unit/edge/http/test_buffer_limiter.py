from edge.http.buffer_limiter import BufferLimiter

BIG = 100_000


class FakeConnection:
    def __init__(self, waiting_since: float = 0.0) -> None:
        self.waiting_since = waiting_since
        self.held = 0
        self.stopped = False

    def stop_waiting(self) -> None:
        self.stopped = True


Limiter = BufferLimiter[FakeConnection]


def limiter_of(*connections: FakeConnection, limit: int = 10 * BIG, now: float = 100.0) -> Limiter:
    return BufferLimiter(limit, connections, lambda: now)


def test_bytes_are_kept_up_to_the_limit() -> None:
    connection = FakeConnection()
    limiter = limiter_of(connection)
    assert [limiter.hold(connection, BIG) for _ in range(11)] == [True] * 10 + [False]


def test_the_connection_that_waits_longest_loses_its_bytes() -> None:
    slow, slower, busy = FakeConnection(20.0), FakeConnection(10.0), FakeConnection()
    newcomer = FakeConnection(99.9)
    limiter = limiter_of(slow, slower, busy, newcomer)
    for connection in (slow, slower, busy):
        assert limiter.hold(connection, 3 * BIG)
    assert limiter.hold(newcomer, 2 * BIG)
    assert [connection.stopped for connection in (slow, slower, busy, newcomer)] == [False, True, False, False]
    assert (slow.held, slower.held, limiter.evicted) == (3 * BIG, 0, 1)


def test_a_wait_that_has_just_begun_is_not_ended_and_the_newcomer_is_refused() -> None:
    prompt, newcomer = FakeConnection(99.5), FakeConnection()
    limiter = limiter_of(prompt, newcomer, now=100.0)
    assert limiter.hold(prompt, 10 * BIG)
    assert not limiter.hold(newcomer, BIG)
    assert not prompt.stopped


def test_few_bytes_are_always_kept() -> None:
    busy, small = FakeConnection(), FakeConnection()
    limiter = limiter_of(busy, small)
    assert limiter.hold(busy, 10 * BIG)
    assert limiter.hold(small, 1000)
    assert not limiter.hold(small, BIG)


def test_released_bytes_can_be_held_again() -> None:
    connection = FakeConnection()
    limiter = limiter_of(connection)
    assert limiter.hold(connection, 10 * BIG)
    limiter.release(connection, BIG)
    assert limiter.hold(connection, BIG)
    limiter.release(connection)
    limiter.release(connection, BIG)
    assert (connection.held, limiter.held) == (0, 0)
    assert limiter.hold(connection, 10 * BIG)
