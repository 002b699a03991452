import asyncio

from console.keys.usage_counts import CallsToday, calls_today
from console.rendering.times import DAY_MS, HOUR_MS
from contract.times import milliseconds_of, to_timestamp
from tests.unit.console.recorded_services import RecordedServices
from workflow_api.v1.usage_pb2 import CountCallsByKeyResponse, KeyHour

COUNT = "UsageService/CountCallsByKey"
NOON = 1_000 * DAY_MS + 12 * HOUR_MS


def count(hour: int, calls: int, refused: int = 0) -> KeyHour:
    return KeyHour(hour=to_timestamp(1_000 * DAY_MS + hour * HOUR_MS), key_id="ak_1", calls=calls, refused=refused)


def test_calls_are_counted_from_midnight_with_a_bar_for_each_hour() -> None:
    services = RecordedServices({COUNT: CountCallsByKeyResponse(items=[count(11, 3), count(3, 6, refused=2)])})
    found = asyncio.run(calls_today(services, NOON, ["ak_1", "ak_2"]))
    assert (found["ak_1"].calls, found["ak_1"].refused, found["ak_1"].bars.count("<rect")) == (9, 2, 2)
    assert found["ak_2"] == CallsToday()
    (asked,) = services.asked_for(COUNT)
    assert [milliseconds_of(asked.since), milliseconds_of(asked.until)] == [1_000 * DAY_MS, 1_001 * DAY_MS]
    assert list(asked.key_ids) == ["ak_1", "ak_2"]


def test_without_keys_nothing_is_counted() -> None:
    services = RecordedServices({})
    assert asyncio.run(calls_today(services, NOON, [])) == {}
    assert services.asked_for(COUNT) == []
