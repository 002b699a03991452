from edge.admission.machine_rate_limit import MachineRateLimiter
from edge.admission.rate_limit import Window
from edge.shared_memory.minute_counts import VALUE_BYTES, SharedMinuteCounts
from edge.shared_memory.table import SharedTable

MINUTE = 29_833_333 * 60_000


class Machine:
    """Edges of one machine, at a time that is set."""

    def __init__(self, edges: int) -> None:
        self.now_ms = MINUTE
        file = SharedTable.new(VALUE_BYTES).file
        self.limiters = [
            MachineRateLimiter(SharedMinuteCounts(SharedTable(file, VALUE_BYTES), lambda: self.now_ms))
            for _ in range(edges)
        ]

    def count(self, edge: int, began_ms: int, key_id: str = "ak_a") -> Window:
        return self.limiters[edge].count(key_id, 2, began_ms)


def test_edges_share_the_limit_of_a_key() -> None:
    machine = Machine(2)
    assert [machine.count(edge, MINUTE).full for edge in (0, 1, 1, 0)] == [False, False, True, True]
    assert machine.count(1, MINUTE, "ak_b") == Window(2, 1, 60)


def test_a_call_that_began_in_an_earlier_minute_does_not_begin_that_minute_again() -> None:
    machine = Machine(2)
    machine.now_ms += 60_000
    assert [machine.count(0, machine.now_ms).used, machine.count(1, MINUTE).used] == [1, 2]
    assert machine.count(0, machine.now_ms).full


def test_the_wait_reaches_into_the_next_minute_and_is_never_zero() -> None:
    machine = Machine(1)
    waits = {0: 60, 1: 60, 1000: 59, 58_999: 2, 59_000: 1, 59_999: 1}
    for after, seconds in waits.items():
        machine.now_ms = MINUTE + after
        assert machine.count(0, MINUTE).reset_seconds == seconds


def test_usage_tells_what_all_edges_counted_and_counts_nothing() -> None:
    machine = Machine(2)
    machine.count(0, MINUTE)
    assert [machine.limiters[edge].usage("ak_a", 2, MINUTE) for edge in (0, 1, 1)] == [Window(2, 1, 60)] * 3


def test_the_limit_counts_as_shared() -> None:
    (family,) = Machine(1).limiters[0].measured()
    assert [sample.value for sample in family.samples] == [1]
