import pytest

from console.keys.usage_counts import (
    WINDOWS,
    Latency,
    bars_of,
    latencies,
    routes,
    stacks,
    window_between,
    window_named,
)
from console.rendering.times import DAY_MS, HOUR_MS
from contract.times import to_timestamp
from workflow_api.v1.usage_pb2 import UsageHour, UsageRecord

DAY, WEEK, QUARTER = WINDOWS
NOW = 1_000 * DAY_MS + 5 * HOUR_MS + 1


def count(hour: int, status: int, calls: int, route: str = "/me") -> UsageHour:
    return UsageHour(
        hour=to_timestamp(1_000 * DAY_MS + hour * HOUR_MS), method="GET", route=route, status=status, calls=calls
    )


def test_a_window_includes_every_hour_up_to_the_current_one() -> None:
    _, found = stacks([], DAY, NOW)
    assert len(found) == 24
    assert found[-1].at_ms == NOW - 1
    assert sum(span.calls for span in found) == 0


def test_calls_are_counted_by_outcome() -> None:
    counts = [count(5, 200, 3), count(5, 202, 1), count(5, 429, 2), count(5, 503, 4), count(4, 200, 9)]
    names, found = stacks(counts, DAY, NOW)
    assert dict(zip(names, found[-1].parts, strict=True)) == {"answered": 4, "refused": 2, "failed": 4}
    assert found[-1].calls == 10


def test_calls_are_counted_by_status_and_by_route() -> None:
    counts = [count(5, 200, 3), count(5, 404, 2, "/runs")]
    names, found = stacks(counts, DAY, NOW, "status")
    assert (names, found[-1].parts) == (("200", "404"), [3, 2])
    names, found = stacks(counts, DAY, NOW, "route")
    assert (names, found[-1].parts) == (("GET /me", "GET /runs"), [3, 2])


def test_the_least_frequent_routes_are_counted_together() -> None:
    names, found = stacks([count(5, 200, 10 - n, f"/{n}") for n in range(8)], DAY, NOW, "route")
    assert names == (*(f"GET /{n}" for n in range(6)), "others")
    assert found[-1].parts[-1] == 4 + 3


def test_a_long_window_is_counted_by_the_day() -> None:
    _, found = stacks([count(1, 200, 3), count(4, 200, 4), count(-1, 200, 5)], QUARTER, NOW)
    assert len(found) == 90
    assert [span.calls for span in found[-2:]] == [5, 7]


def test_a_range_has_its_first_and_its_last_day() -> None:
    window, until = window_between("2026-09-24", "2026-09-25")
    starts = window.starts(until)
    assert (len(starts), (until + 1) % DAY_MS, starts[0] % DAY_MS) == (48, 0, 0)
    long, until = window_between("2026-09-01", "2026-09-30")
    assert (len(long.starts(until)), long.span_ms) == (30, DAY_MS)
    assert long.when == "from 2026-09-01 to 2026-09-30"


@pytest.mark.parametrize(
    ("first", "last"), [("2026-09-24", "2026-09-23"), ("2026-01-01", "2026-09-01"), ("", "2026-09-01"), ("x", "y")]
)
def test_a_range_that_is_none_or_too_long_is_refused(first: str, last: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        window_between(first, last)


def test_a_bar_has_the_time_of_day_or_the_day_as_tick() -> None:
    assert [bars_of(stacks([], window, NOW)[1], window)[-1].tick for window in WINDOWS] == ["05:00", "09-27", "09-27"]


def test_latencies_are_times_that_calls_took_by_route_the_slowest_first() -> None:
    fast = [UsageRecord(method="GET", route="/me", duration_us=1_000 * n) for n in range(100, 0, -1)]
    slow = [UsageRecord(method="POST", route="/runs", duration_us=500_500), UsageRecord(method="GET", route="/old")]
    assert latencies(fast + slow) == [
        Latency("POST /runs", 1, 500.5, 500.5, 500.5),
        Latency("GET /me", 100, 50.0, 95.0, 99.0),
    ]


def test_routes_are_counted_over_the_hours_the_most_frequent_first() -> None:
    found = routes([count(1, 200, 3), count(2, 200, 3), count(1, 403, 2), count(1, 200, 9, "/runs")])
    assert [(each.route, each.status, each.calls) for each in found] == [
        ("/runs", 200, 9),
        ("/me", 200, 6),
        ("/me", 403, 2),
    ]


def test_an_unknown_window_is_the_first() -> None:
    assert window_named("week") == WEEK
    assert window_named("<script>") == DAY
