import os
import signal
from collections.abc import Callable

from edge.shared_memory.table import SharedTable

VALUE_BYTES = 8


def in_another_process(work: Callable[[SharedTable], None], table: SharedTable) -> int:
    """Attaches the table in a child, which ends after the work; returns how it ended."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work(SharedTable(table.file, VALUE_BYTES))
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def rows(table: SharedTable, names: list[str]) -> list[int | None]:
    with table:
        return [table.find(name) for name in names]


def test_a_row_is_found_where_it_was_added_by_another_process() -> None:
    table = SharedTable.new(VALUE_BYTES)
    with table:
        added = table.find_or_add("ak_a")
        table.memory[added : added + VALUE_BYTES] = b"kept 8 b"

    def work(attached: SharedTable) -> None:
        with attached:
            at = attached.find("ak_a")
            assert at == added
            assert attached.memory[at : at + VALUE_BYTES] == b"kept 8 b"
            attached.find_or_add("ak_b")

    assert in_another_process(work, table) == 0
    assert rows(table, ["ak_a", "ak_b", "ak_c"]) == [added, added + 28 + VALUE_BYTES, None]


def test_a_table_grows_for_all_processes() -> None:
    table = SharedTable.new(VALUE_BYTES)
    names = [f"ak_{number}" for number in range(5_000)]

    def work(attached: SharedTable) -> None:
        with attached:
            for name in names:
                attached.find_or_add(name)

    before = len(table.memory)
    assert in_another_process(work, table) == 0
    found = rows(table, names)
    assert None not in found
    assert len(set(found)) == len(names)
    assert len(table.memory) > before


def test_a_table_never_shrinks_under_a_process_that_let_it_grow() -> None:
    table = SharedTable.new(VALUE_BYTES)

    def work(attached: SharedTable) -> None:
        with attached:
            for number in range(5_000):
                attached.find_or_add(f"ak_{number}")
            attached.remove_all()

    assert in_another_process(work, table) == 0
    grown = os.fstat(table.file).st_size
    with table:
        for number in range(2_000):
            table.find_or_add(f"ak_{number}")
    assert os.fstat(table.file).st_size == grown


def test_no_process_finds_rows_that_were_removed() -> None:
    table = SharedTable.new(VALUE_BYTES)
    other = SharedTable(table.file, VALUE_BYTES)
    with table:
        table.find_or_add("ak_a")
    assert None not in rows(other, ["ak_a"])
    with table:
        table.remove_all()
        first = table.find_or_add("ak_b")
    assert rows(other, ["ak_a", "ak_b"]) == [None, first]


def test_the_end_of_a_process_releases_its_lock() -> None:
    table = SharedTable.new(VALUE_BYTES)

    def work(attached: SharedTable) -> None:
        with attached:
            os.kill(os.getpid(), signal.SIGKILL)

    assert in_another_process(work, table) == -signal.SIGKILL
    assert rows(table, ["ak_a"]) == [None]
