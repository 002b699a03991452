import tracemalloc

import pytest

from backend.isolation.sandbox import process as process_module
from backend.isolation.sandbox.process import BoundedLog, bounded


def test_a_log_within_its_limit_is_whole() -> None:
    assert bounded(1_024, b"a" * 600, b"b" * 424) == b"a" * 600 + b"b" * 424


@pytest.mark.parametrize("parts", [[b"0123456789" * 1_000], [b"0123456789"] * 1_000, [b"0" * 1_000, b"1" * 9_000]])
@pytest.mark.parametrize("limit", [1_024, 1_025, 4_099, 9_999])
def test_of_a_longer_log_the_middle_is_cut_and_counted(parts: list[bytes], limit: int) -> None:
    whole = b"".join(parts)
    head, line, tail = bounded(limit, *parts).split(b"\n")
    assert len(head + line + tail) + 2 <= limit
    assert (whole.startswith(head), whole.endswith(tail)) == (True, True)
    assert abs(len(head) - len(tail)) <= 1
    assert line == b"[%d bytes of the log are cut here]" % (len(whole) - len(head) - len(tail))


def test_no_more_than_the_limit_is_held() -> None:
    log = BoundedLog(1_024)
    tracemalloc.start()
    try:
        for _ in range(100):
            log.add(b"x" * 1_000)
        held = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, process_module.__file__)])
    finally:
        tracemalloc.stop()
    assert 0 < sum(trace.size for trace in held.traces) < 4 * 1_024
