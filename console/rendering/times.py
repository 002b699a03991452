"""Formats of times on pages, and the time zones that a person may choose."""

import time
from datetime import UTC, date, datetime, timedelta, tzinfo
from datetime import time as dt_time
from functools import cache
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 86_400_000

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_MORNING: Final = 8
_DAYS_OF_WEEK: Final = 7
UTC_NAME: Final = "UTC"


def now_ms() -> int:
    """Returns the present time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def utc_text(milliseconds: int) -> str:
    """Returns a time in milliseconds since the epoch as `2026-09-24 10:15:30 UTC`."""
    return text_in(UTC, milliseconds)


def text_in(zone: tzinfo, milliseconds: int) -> str:
    """Returns a time in milliseconds since the epoch in a time zone, as `2026-09-24 12:15:30 CEST`."""
    return _at(milliseconds).astimezone(zone).strftime("%Y-%m-%d %H:%M:%S %Z")


def machine_text(milliseconds: int) -> str:
    """Returns a time in milliseconds since the epoch as programs read it, `2026-09-24T10:15:30.123Z`."""
    return _at(milliseconds).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def hour(milliseconds: int) -> str:
    """Returns the hour that began at a time, as `2026-09-24 10:00`."""
    return _at(milliseconds).strftime("%Y-%m-%d %H:%M")


def day(milliseconds: int) -> str:
    """Returns the UTC day of a time, as `2026-09-24`."""
    return _at(milliseconds).strftime("%Y-%m-%d")


DAY_RULE: Final = "must be a day such as 2026-09-24, from 0001-01-02 to 9999-12-30"
"""The rule of `start_of_day`: the first and the last day of the calendar have no day before or after them."""


def start_of_day(text: str) -> int:
    """Returns the start of a UTC day, written as `2026-09-24`, in milliseconds since the epoch.

    Raises:
        ValueError: the text is no such day, or not within `DAY_RULE`.
    """
    # Stricter than fromisoformat, because browsers send one form only.
    began = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    if began.date() in (date.min, date.max):
        raise ValueError(text)
    return (began - _EPOCH) // timedelta(milliseconds=1)


def morning(zone: tzinfo, now: int, days: int) -> int:
    """Returns eight o'clock in a zone so many days after the day of `now`, in milliseconds since the epoch."""
    local = _at(now).astimezone(zone)
    then = datetime.combine(local.date() + timedelta(days=days), dt_time(_MORNING), local.tzinfo)
    return (then - _EPOCH) // timedelta(milliseconds=1)


def days_to_monday(zone: tzinfo, now: int) -> int:
    """Returns the days from the day of `now` in a zone to the next Monday, 1 to 7."""
    return _DAYS_OF_WEEK - _at(now).astimezone(zone).weekday()


@cache
def zone_names() -> tuple[str, ...]:
    """Returns the names of zones to choose from: UTC first, then zones of regions such as `Europe/Berlin`."""
    regional = (name for name in available_timezones() if "/" in name and not name.startswith("Etc/"))
    return (UTC_NAME, *sorted(regional))


def zone_named(name: str) -> tzinfo:
    """Returns the zone of a name; UTC for an unknown name."""
    return ZoneInfo(name) if name != UTC_NAME and name in zone_names() else UTC


def _at(milliseconds: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=milliseconds)
