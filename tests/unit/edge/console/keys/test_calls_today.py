import asyncio

from contract.times import milliseconds_of, to_timestamp
from edge.console.keys.calls_today import CallsToday, calls_today
from edge.console.rendering.times import DAY_MS, HOUR_MS
from tests.unit.edge.console.recorded_services import RecordedServices
from workflow_api.v1.usage_pb2 import ListUsageHoursResponse, UsageHour

NOON = 1_000 * DAY_MS + 12 * HOUR_MS


def count(hour: int, calls: int, status: int = 200) -> UsageHour:
    return UsageHour(hour=to_timestamp(1_000 * DAY_MS + hour * HOUR_MS), key_id="ak_1", status=status, calls=calls)


def test_calls_are_counted_from_midnight_with_a_bar_for_each_hour() -> None:
    answer = ListUsageHoursResponse(items=[count(3, 4), count(3, 2, 403), count(11, 3)])
    services = RecordedServices({"UsageService/ListUsageHours": answer})
    found = asyncio.run(calls_today(services, NOON))
    assert (found["ak_1"].calls, found["ak_1"].refused, found["ak_1"].bars.count("<rect")) == (9, 2, 2)
    assert found["ak_2"] == CallsToday()
    assert milliseconds_of(services.asked_for("UsageService/ListUsageHours")[0].since) == 1_000 * DAY_MS
