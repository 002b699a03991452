from contract.times import to_timestamp
from edge.console.times import DAY_MS, HOUR_MS
from edge.console.usage_counts import WINDOWS, routes, spans, window_named
from workflow_api.v1.usage_pb2 import UsageHour

DAY, WEEK, QUARTER = WINDOWS
NOW = 1_000 * DAY_MS + 5 * HOUR_MS + 1


def count(hour: int, status: int, calls: int, route: str = "/me") -> UsageHour:
    return UsageHour(
        hour=to_timestamp(1_000 * DAY_MS + hour * HOUR_MS), method="GET", route=route, status=status, calls=calls
    )


def test_a_window_includes_every_hour_up_to_the_current_one() -> None:
    found = spans([], DAY, NOW)
    assert len(found) == 24
    assert found[-1].at_ms == NOW - 1
    assert sum(span.calls for span in found) == 0


def test_calls_are_counted_by_outcome() -> None:
    last = spans([count(5, 200, 3), count(5, 202, 1), count(5, 429, 2), count(5, 503, 4), count(4, 200, 9)], DAY, NOW)[
        -1
    ]
    assert (last.answered, last.refused, last.failed, last.calls) == (4, 2, 4, 10)


def test_a_long_window_is_counted_by_the_day() -> None:
    found = spans([count(1, 200, 3), count(4, 200, 4), count(-1, 200, 5)], QUARTER, NOW)
    assert len(found) == 90
    assert [span.calls for span in found[-2:]] == [5, 7]


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
