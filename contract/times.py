"""Conversions of times and durations: messages, milliseconds, units of the protos, and ISO 8601 text."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

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
_HOUR: Final = r"(?:[01]\d|2[0-3])"
_SIXTIETH: Final = r"[0-5]\d"
_DATE_TIME: Final = re.compile(
    rf"(?P<base>\d{{4}}-\d\d-\d\dT{_HOUR}(?::{_SIXTIETH}(?P<seconds>:{_SIXTIETH})?)?"
    rf"|\d{{8}}T{_HOUR}(?:{_SIXTIETH}(?P<basic_seconds>{_SIXTIETH})?)?)"
    r"(?:[.,](?P<fraction>\d+))?"
    rf"(?P<offset>Z|[+-]{_HOUR}(?::?{_SIXTIETH})?)?",
    re.ASCII,
)
_MUST_BE: Final = (
    "an ISO 8601 date-time as 2026-09-24T10:15:30.123+02:00 or 20260924T101530Z: a date of the calendar, a time from "
    "00:00:00 to 23:59:59, and an offset of at most 23:59 hours or none for UTC"
)
# The raw `+` of an offset arrives as a blank.
_BLANK_OFFSET: Final = re.compile(r" (?=[\d:]+$)")
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - reckoned without zones, which overflow at the ends of time
_SECOND: Final = timedelta(seconds=1)
_EARLIEST: Final = -62_135_596_800  # 0001-01-01T00:00:00Z
_LATEST: Final = 253_402_300_799  # 9999-12-31T23:59:59Z
_MILLISECOND_NANOS: Final = 1_000_000


def set_milliseconds(target: Timestamp | Duration, milliseconds: int) -> None:
    """Sets a time, in milliseconds since the epoch, or a duration in milliseconds.

    Setting a field of a message in place takes a third of the time that copying a message into it takes.
    """
    target.seconds, rest = divmod(milliseconds, 1000)
    target.nanos = rest * 1_000_000


def milliseconds_of(time: Timestamp | Duration) -> int:
    """Returns a time, in milliseconds since the epoch, or a duration, rounded down to whole milliseconds."""
    return time.seconds * 1000 + time.nanos // 1_000_000


def to_timestamp(milliseconds: int) -> Timestamp:
    """Returns the time at milliseconds since the epoch."""
    timestamp = Timestamp()
    set_milliseconds(timestamp, milliseconds)
    return timestamp


def to_duration(milliseconds: int) -> Duration:
    """Returns a duration of milliseconds."""
    duration = Duration()
    set_milliseconds(duration, milliseconds)
    return duration


def duration_of(count: int, unit: TimeUnit.ValueType) -> Duration:
    """Returns the duration of `count` units."""
    seconds, nanos = divmod(count * _LENGTHS_NS[unit], _SECOND_NS)
    return Duration(seconds=seconds, nanos=nanos)


def count_of(duration: Duration, unit: TimeUnit.ValueType) -> int | None:
    """Returns the number of units of a duration; None where it is not a whole number."""
    count, rest = divmod(duration.seconds * _SECOND_NS + duration.nanos, _LENGTHS_NS[unit])
    return None if rest else count


def unit_name(unit: TimeUnit.ValueType) -> str:
    """Returns the name of a unit in words, as `days`."""
    return TimeUnit.Name(unit).removeprefix("TIME_UNIT_").lower()


def parse_date_time(text: str) -> Timestamp:
    """Returns the time of an ISO 8601 text, in UTC where the text has no offset.

    A fraction finer than nanoseconds still lies after its millisecond. A time that its offset moves beyond the years
    1 to 9999 becomes the first or the last second of these years.

    Raises:
        ValueError: the text is not an ISO 8601 date-time; the message completes "must be …".
    """
    match = _DATE_TIME.fullmatch(_BLANK_OFFSET.sub("+", text.upper()))
    fraction = (match and match["fraction"]) or ""
    if match is None or (fraction and not (match["seconds"] or match["basic_seconds"])):
        raise ValueError(_MUST_BE)
    try:
        moment = datetime.fromisoformat(match["base"] + (match["offset"] or ""))
    except ValueError:
        raise ValueError(_MUST_BE) from None
    seconds = (moment.replace(tzinfo=None) - _EPOCH - (moment.utcoffset() or timedelta())) // _SECOND
    return Timestamp(seconds=min(max(seconds, _EARLIEST), _LATEST), nanos=_nanos(fraction))


def _nanos(fraction: str) -> int:
    nanos = int(f"{fraction[:9]:0<9}")
    finer = fraction[9:].strip("0") != ""
    return nanos + 1 if finer and nanos % _MILLISECOND_NANOS == 0 else nanos


def approximate(milliseconds: int) -> str:
    """Returns a duration in rounded words, as `about 40 seconds`, `about 4 minutes` or `about 3 hours`."""
    seconds = max(1, round(milliseconds / 1000))
    for size, name, shown_from in ((3600, "hour", 5400), (60, "minute", 90), (1, "second", 0)):
        if seconds >= shown_from:
            count = round(seconds / size)
            return f"about {count:,} {name}{'' if count == 1 else 's'}"
    raise AssertionError(milliseconds)
