from contract.connections.connection_limiter import ConnectionLimiter


class FakeConnection:
    def __init__(self, waiting_since: float = 0.0) -> None:
        self.waiting_since = waiting_since
        self.evicted = False

    def evict(self) -> None:
        self.evicted = True


def admit(limiter: ConnectionLimiter[FakeConnection], *connections: FakeConnection) -> list[bool]:
    return [limiter.admit(connection) for connection in connections]


def test_a_newcomer_replaces_the_connection_that_waits_longest() -> None:
    limiter = ConnectionLimiter[FakeConnection](3)
    connections = [FakeConnection(waiting_since) for waiting_since in (30.0, 10.0, 0.0, 0.0)]
    assert admit(limiter, *connections) == [True] * 4
    assert [connection.evicted for connection in connections] == [False, True, False, False]
    assert limiter.evicted == 1


def test_a_newcomer_is_evicted_when_all_others_are_being_served() -> None:
    limiter = ConnectionLimiter[FakeConnection](2)
    busy, newcomer = [FakeConnection(), FakeConnection()], FakeConnection(50.0)
    assert admit(limiter, *busy, newcomer) == [True, True, False]
    assert newcomer.evicted
    assert not any(connection.evicted for connection in busy)


def test_several_are_evicted_together_so_that_few_newcomers_sort_all_connections() -> None:
    limiter = ConnectionLimiter[FakeConnection](100)
    connections = [FakeConnection(1.0 + number) for number in range(101)]
    admit(limiter, *connections)
    assert [connection.evicted for connection in connections] == [True] * 6 + [False] * 95


def test_a_connection_that_has_ended_takes_no_place() -> None:
    limiter = ConnectionLimiter[FakeConnection](1)
    first, second = FakeConnection(1.0), FakeConnection()
    limiter.admit(first)
    limiter.leave(first)
    limiter.admit(second)
    assert not first.evicted
    assert limiter.connections == {second}
