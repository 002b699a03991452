"""Lengths of time, counted in the units that the protos name."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from google.protobuf.duration_pb2 import Duration

from workflow_api.v1.options_pb2 import (
    TIME_UNIT_DAYS,
    TIME_UNIT_HOURS,
    TIME_UNIT_MILLISECONDS,
    TIME_UNIT_SECONDS,
    TimeUnit,
)

_SECOND_NS: Final = 1_000_000_000
_LENGTHS_NS: Final[Mapping[TimeUnit.ValueType, int]] = MappingProxyType(
    {
        TIME_UNIT_MILLISECONDS: 1_000_000,
        TIME_UNIT_SECONDS: _SECOND_NS,
        TIME_UNIT_HOURS: 3_600 * _SECOND_NS,
        TIME_UNIT_DAYS: 86_400 * _SECOND_NS,
    }
)


def duration_of(count: int, unit: TimeUnit.ValueType) -> Duration:
    """Returns the length of time of so many units."""
    seconds, nanos = divmod(count * _LENGTHS_NS[unit], _SECOND_NS)
    return Duration(seconds=seconds, nanos=nanos)


def count_of(duration: Duration, unit: TimeUnit.ValueType) -> int | None:
    """Returns how many units a length of time is; None where it is not a whole number of them."""
    count, rest = divmod(duration.seconds * _SECOND_NS + duration.nanos, _LENGTHS_NS[unit])
    return None if rest else count


def unit_name(unit: TimeUnit.ValueType) -> str:
    """Returns the name of a unit in words, as `days`."""
    return TimeUnit.Name(unit).removeprefix("TIME_UNIT_").lower()
