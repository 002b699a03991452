from edge.shared_memory.held_calls import SharedHeldCalls, value_bytes
from edge.shared_memory.table import SharedTable

PROCESSES = 3


def processes() -> list[SharedHeldCalls]:
    """The same numbers as each process sees them."""
    size = value_bytes(PROCESSES)
    file = SharedTable.new(size).file
    return [SharedHeldCalls(SharedTable(file, size), PROCESSES, position) for position in range(PROCESSES)]


def test_all_processes_together_hold_as_many_calls_of_a_key_as_allowed() -> None:
    one, other, third = processes()
    assert [each.take("ak_a", 3) for each in (one, other, one, third, other)] == [True, True, True, False, False]
    assert third.take("ak_b", 3)
    other.give_back("ak_a")
    assert [third.take("ak_a", 3), one.take("ak_a", 3)] == [True, False]


def test_what_a_process_held_at_its_end_is_free_again() -> None:
    one, other, third = processes()
    assert [one.take("ak_a", 2), one.take("ak_b", 2), other.take("ak_a", 2)] == [True, True, True]
    third.forget(0)
    assert [other.take("ak_a", 2), other.take("ak_a", 2)] == [True, False]
    assert [third.take("ak_b", 2), third.take("ak_b", 2), third.take("ak_b", 2)] == [True, True, False]
