from datetime import UTC, datetime

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from contract.times import (
    count_of,
    duration_of,
    milliseconds_of,
    parse_date_time,
    set_milliseconds,
    to_duration,
    to_timestamp,
)
from workflow_api.v1.options_pb2 import (
    TIME_UNIT_DAYS,
    TIME_UNIT_HOURS,
    TIME_UNIT_MILLISECONDS,
    TIME_UNIT_SECONDS,
    TimeUnit,
)
from workflow_api.v1.runs_pb2 import Event


def test_a_time_keeps_its_milliseconds() -> None:
    time = to_timestamp(1_763_820_000_123)

    assert (time.seconds, time.nanos) == (1_763_820_000, 123_000_000)
    assert milliseconds_of(time) == 1_763_820_000_123


def test_a_time_span_keeps_its_milliseconds() -> None:
    assert milliseconds_of(to_duration(3_661_007)) == 3_661_007


def test_the_epoch_itself_is_a_time_that_is_set() -> None:
    event = Event()

    set_milliseconds(event.at, 0)

    assert event.HasField("at")


@pytest.mark.parametrize(
    ("count", "unit", "duration"),
    [
        (1_500, TIME_UNIT_MILLISECONDS, Duration(seconds=1, nanos=500_000_000)),
        (30, TIME_UNIT_SECONDS, Duration(seconds=30)),
        (0, TIME_UNIT_SECONDS, Duration()),
        (72, TIME_UNIT_HOURS, Duration(seconds=259_200)),
        (3_650, TIME_UNIT_DAYS, Duration(seconds=315_360_000)),
        (-1, TIME_UNIT_DAYS, Duration(seconds=-86_400)),
    ],
)
def test_a_count_of_units_is_a_length_of_time_and_back(
    count: int, unit: TimeUnit.ValueType, duration: Duration
) -> None:
    assert duration_of(count, unit) == duration
    assert count_of(duration, unit) == count


@pytest.mark.parametrize(
    ("duration", "unit"),
    [
        (Duration(seconds=86_401), TIME_UNIT_DAYS),
        (Duration(seconds=86_400, nanos=1), TIME_UNIT_DAYS),
        (Duration(nanos=999_999), TIME_UNIT_MILLISECONDS),
    ],
    ids=["a second more", "a nanosecond more", "less than one"],
)
def test_what_is_no_whole_number_of_units_has_no_count(duration: Duration, unit: TimeUnit.ValueType) -> None:
    assert count_of(duration, unit) is None


TEN = int(datetime(2026, 9, 24, 10, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    "text",
    [
        "2026-09-24T10:00:00Z",
        "2026-09-24T10:00:00",
        "2026-09-24t10:00z",
        "2026-09-24T10",
        "2026-09-24T10:00:00.000+00:00",
        "2026-09-24T10:00:00,0-00:00",
        "2026-09-24T12:00:00+02:00",
        "2026-09-24T12:00:00 02:00",
        "2026-09-24T04:30:00-0530",
        "2026-09-24T11+01",
        "20260924T100000Z",
        "20260924T1000",
        "2026-09-25T09:59:00+23:59",
        "2026-09-23T10:01:00-23:59",
    ],
)
def test_an_iso_date_time_is_read_to_the_instant(text: str) -> None:
    assert parse_date_time(text) == to_timestamp(TEN)


@pytest.mark.parametrize(
    ("fraction", "nanos"),
    [
        (".5", 500_000_000),
        (",000000001", 1),
        (".0000000001", 1),
        (".0010000001", 1_000_001),
        (".9999999999999", 999_999_999),
        (".00100000000000", 1_000_000),
    ],
)
def test_a_finer_fraction_than_a_nanosecond_stays_after_its_millisecond(fraction: str, nanos: int) -> None:
    assert parse_date_time(f"2026-09-24T10:00:00{fraction}Z") == Timestamp(seconds=TEN // 1000, nanos=nanos)


def test_a_time_before_the_epoch_counts_its_fraction_upwards() -> None:
    assert parse_date_time("1969-12-31T23:59:59.9995Z") == Timestamp(seconds=-1, nanos=999_500_000)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0001-01-01T00:00:00+14:00", -62_135_596_800), ("9999-12-31T23:59:59-14:00", 253_402_300_799)],
)
def test_the_ends_of_time_do_not_overflow(text: str, seconds: int) -> None:
    assert parse_date_time(text).seconds == seconds


@pytest.mark.parametrize(
    "text",
    [
        "2026-09-24",
        "20260924",
        "2026-09-24T",
        "2026-09-24 10:00:00",
        "2026-09-24T10:00:00+",
        "2026-09-24T10:00:00++02:00",
        "2026-09-24T10:00:00+02:00:30",
        "2026-09-24T10:00:00+24:00",
        "2026-09-24T10:00:00 Z",
        "2026-09-24T10:00.5Z",
        "2026-09-24T10:00:00.Z",
        "2026-09-24T10:0000Z",
        "2026-0924T10:00:00Z",
        "2026-02-30T10:00:00Z",
        "2026-09-24T25:00:00Z",
        "2026-09-24T24:00:00Z",
        "20260924T240000Z",
        "2026-09-24T10:61:00Z",
        "2026-09-24T10:60Z",
        "2026-09-24T23:59:60Z",
        "2026-09-24T10:00:00+02:60",
        "2026-09-24T10:00:00-0099",
        "2026-09-24T10:00:00+99",
        "2026-W39-4T10:00:00Z",
        "2026W394T100000Z",
        "2026-267T10:00:00Z",
        "2026267T100000Z",
        "0000-01-01T00:00:00Z",
        "+2026-09-24T10:00:00Z",
        "٢٠٢٦-09-24T10:00:00Z",
        "1790000000",
        "now",
    ],
)
def test_what_is_no_iso_date_time_is_refused_with_the_forms_that_are_accepted(text: str) -> None:
    with pytest.raises(ValueError, match=r"^an ISO 8601 date-time as 2026-09-24T10:15:30\.123\+02:00 or "):
        parse_date_time(text)
