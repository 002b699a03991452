from edge.shared_memory.balance import ConnectionBalance

PROCESSES = 3


def processes() -> list[ConnectionBalance]:
    """The same numbers as each process sees them."""
    file = ConnectionBalance.new(PROCESSES).file
    return [ConnectionBalance(file, position) for position in range(PROCESSES)]


def test_a_process_alone_never_leaves_a_connection_to_others() -> None:
    one, _, _ = processes()
    assert not any(one.leads(connections) for connections in range(100))


def test_a_process_with_more_than_another_leaves_it_the_next() -> None:
    one, other, _ = processes()
    assert not other.leads(3)
    assert [one.leads(connections) for connections in (2, 3, 4)] == [False, False, True]
    assert not other.leads(4)


def test_where_there_are_many_connections_a_process_may_lead_by_some() -> None:
    one, other, _ = processes()
    other.leads(100)
    assert [one.leads(connections) for connections in (114, 115)] == [False, True]


def test_a_process_that_has_left_is_not_waited_for() -> None:
    one, other, third = processes()
    other.leads(0)
    assert one.leads(5)
    third.leave(1)
    assert not one.leads(5)
    other.leads(0)
    other.leave()
    assert not one.leads(5)
