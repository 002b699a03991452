"""Time as the service counts it: whole milliseconds since the epoch, UTC."""

import time
from collections.abc import Callable

from google.protobuf.timestamp_pb2 import Timestamp

Clock = Callable[[], int]

DAY_MS = 86_400_000


def system_clock() -> int:
    """The present time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def to_timestamp(milliseconds: int) -> Timestamp:
    """The protobuf form of a time in milliseconds since the epoch."""
    seconds, rest = divmod(milliseconds, 1000)
    return Timestamp(seconds=seconds, nanos=rest * 1_000_000)


def utc_day(milliseconds: int) -> int:
    """Number of the UTC day that a time falls in; quotas are counted by it."""
    return milliseconds // DAY_MS


def seconds_to_next_utc_day(milliseconds: int) -> int:
    """Whole seconds, at least 1, until 00:00 UTC."""
    return max(1, -(-(DAY_MS - milliseconds % DAY_MS) // 1000))
