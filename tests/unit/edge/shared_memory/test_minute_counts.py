import os

from edge.shared_memory.minute_counts import VALUE_BYTES, MinuteCount, SharedMinuteCounts
from edge.shared_memory.table import SharedTable

MINUTE = 29_833_333 * 60_000
PROCESSES, CALLS = 4, 2_000


class Clock:
    def __init__(self) -> None:
        self.now_ms = MINUTE

    def __call__(self) -> int:
        return self.now_ms


def pair(clock: Clock) -> tuple[SharedMinuteCounts, SharedMinuteCounts]:
    """The same counts as two processes see them."""
    table = SharedTable.new(VALUE_BYTES)
    return SharedMinuteCounts(table, clock), SharedMinuteCounts(SharedTable(table.file, VALUE_BYTES), clock)


def test_processes_count_together() -> None:
    one, other = pair(Clock())
    assert [each.add("ak_a").used for each in (one, other, other, one)] == [1, 2, 3, 4]
    assert one.add("ak_b").used == 1
    assert other.of("ak_a") == MinuteCount(4, MINUTE)
    assert other.of("ak_c").used == 0


def test_another_minute_begins_at_0_for_all() -> None:
    clock = Clock()
    one, other = pair(clock)
    one.add("ak_a")
    other.add("ak_a")
    clock.now_ms += 60_000
    assert other.of("ak_a") == MinuteCount(0, clock.now_ms)
    assert other.add("ak_b").used == 1
    assert one.of("ak_a").used == 0
    assert one.add("ak_a").used == 1
    clock.now_ms -= 60_000
    assert other.add("ak_a").used == 1


def test_no_call_is_lost_or_counted_twice_where_processes_count_at_the_same_moment() -> None:
    table = SharedTable.new(VALUE_BYTES)
    pids = []
    for _ in range(PROCESSES):
        pid = os.fork()
        if pid == 0:
            counts = SharedMinuteCounts(SharedTable(table.file, VALUE_BYTES), Clock())
            for number in range(CALLS):
                counts.add(f"ak_{number % 100}")
            os._exit(0)
        pids.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * PROCESSES
    counts = SharedMinuteCounts(table, Clock())
    assert {counts.of(f"ak_{number}").used for number in range(100)} == {PROCESSES * CALLS // 100}
