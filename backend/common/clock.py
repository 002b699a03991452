"""Times as whole milliseconds since the epoch, UTC."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from google.protobuf.timestamp_pb2 import Timestamp

Clock = Callable[[], int]

HOUR_MS = 3_600_000
DAY_MS = 86_400_000
MAX_MS = 2**63 - 1
"""Later than any time."""

_EPOCH = datetime.fromtimestamp(0, UTC)


def system_clock() -> int:
    """Returns the present time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def is_due(at: int, now: int, longest_ms: int) -> bool:
    """Returns whether a time has come that was set at most `longest_ms` ahead.

    A time further ahead was set by a clock that was fast and has been corrected since; such a time counts as due.
    """
    return not 0 < at - now <= longest_ms


def is_recent(at: int, now: int, ms: int) -> bool:
    """Returns whether something happened less than `ms` ago.

    Clocks of processes differ a little, so a time up to `ms` in the future counts as recent. A later time was recorded
    by a clock that was fast, and counts as long ago.
    """
    return abs(now - at) < ms


def first_millisecond_from(timestamp: Timestamp) -> int:
    """Returns the first whole millisecond that is not before a time."""
    return timestamp.seconds * 1000 - (-timestamp.nanos // 1_000_000)


def to_text(milliseconds: int) -> str:
    """Returns ISO 8601 with milliseconds and offset, for times inside JSON text."""
    return (_EPOCH + timedelta(milliseconds=milliseconds)).isoformat(timespec="milliseconds")


def utc_day(milliseconds: int) -> int:
    """Returns the number of the UTC day of a time, by which quotas are counted."""
    return milliseconds // DAY_MS


def seconds_to_next_utc_day(milliseconds: int) -> int:
    """Returns the whole seconds, at least 1, until 00:00 UTC."""
    return max(1, -(-(DAY_MS - milliseconds % DAY_MS) // 1000))
