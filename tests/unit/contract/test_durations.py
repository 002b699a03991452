import pytest
from google.protobuf.duration_pb2 import Duration

from contract.durations import count_of, duration_of
from workflow_api.v1.options_pb2 import (
    TIME_UNIT_DAYS,
    TIME_UNIT_HOURS,
    TIME_UNIT_MILLISECONDS,
    TIME_UNIT_SECONDS,
    TimeUnit,
)


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
