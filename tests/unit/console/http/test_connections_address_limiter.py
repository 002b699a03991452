import weakref

from console.http.connections import AddressLimiter


class FakeConnection:
    def __init__(self, waiting_since: float = 0.0) -> None:
        self.waiting_since = waiting_since
        self.ended = False

    def evict(self) -> None:
        self.ended = True


def crowd(limiter: AddressLimiter[FakeConnection], address: str, count: int) -> list[FakeConnection]:
    connections = [FakeConnection(1.0 + number) for number in range(count)]
    for connection in connections:
        limiter.admit(connection, address)
    return connections


def test_an_address_over_its_bound_evicts_its_own_connections_only() -> None:
    limiter = AddressLimiter[FakeConnection](100, 10)
    person = FakeConnection(0.5)
    limiter.admit(person, "198.51.100.1")
    others = crowd(limiter, "203.0.113.7", 50)
    assert not person.ended
    assert [connection.ended for connection in others] == [True] * 40 + [False] * 10
    assert limiter.evicted == 40


def test_over_the_bound_of_all_addresses_the_longest_waiting_are_evicted() -> None:
    limiter = AddressLimiter[FakeConnection](10, 10)
    slow = [crowd(limiter, f"203.0.113.{number}", 1)[0] for number in range(10)]
    person = FakeConnection(99.0)
    limiter.admit(person, "198.51.100.1")
    assert not person.ended
    assert sum(connection.ended for connection in slow) == 1


def test_a_request_under_way_is_never_evicted() -> None:
    limiter = AddressLimiter[FakeConnection](3, 3)
    busy = [FakeConnection() for _ in range(3)]
    newcomer = FakeConnection(50.0)
    for connection in (*busy, newcomer):
        limiter.admit(connection, "203.0.113.7")
    assert [connection.ended for connection in (*busy, newcomer)] == [False, False, False, True]


def test_who_leaves_makes_room_and_nothing_is_kept_of_an_address() -> None:
    limiter, gone = AddressLimiter[FakeConnection](10, 2), []
    for _ in range(5):
        for connection in crowd(limiter, "2001:db8::1", 2):
            limiter.leave(connection)
            limiter.leave(connection)
            gone.append(weakref.ref(connection))
    del connection
    assert limiter.evicted == 0
    assert [left() for left in gone] == [None] * 10
