import datetime as dt

from contract.times import to_timestamp
from deploy.cli.output.key_printing import chart
from workflow_api.v1 import usage_pb2

NOON = dt.datetime(2026, 9, 24, 12, tzinfo=dt.UTC)


def calls(hours_ago: int, status: int, count: int) -> usage_pb2.UsageHour:
    hour = to_timestamp(round((NOON - dt.timedelta(hours=hours_ago)).timestamp() * 1_000))
    return usage_pb2.UsageHour(hour=hour, route="/me", status=status, calls=count)


def test_a_bar_is_as_high_as_its_hours_calls_are_many() -> None:
    hours = [NOON - dt.timedelta(hours=back) for back in reversed(range(24))]
    title, all_calls, refused, labels = chart(hours, [calls(0, 200, 800), calls(1, 200, 350), calls(1, 429, 50)])
    assert title == "Calls in 24 hours: 1,200, at most 800 an hour; refused: 50"
    assert all_calls.split() == ["calls", "▄▄", "██"]
    assert refused.split() == ["refused", "██"]
    assert labels.split() == ["UTC", "13:00", "19:00", "01:00", "07:00"]
    assert max(map(len, (title, all_calls, refused, labels))) <= 81
