"""Times as `2026-09-24T10:15:30.123+00:00` or as milliseconds. (contract 2.1)."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def timestamp_text(timestamp: Timestamp) -> str:
    """Return a time in UTC with milliseconds, cut off rather than rounded, and an explicit offset."""
    minute, second = divmod(timestamp.seconds, 60)
    return f"{_minute_text(minute)}{second:02d}.{timestamp.nanos // 1_000_000:03d}+00:00"


def to_milliseconds(time: Timestamp | Duration) -> int:
    """Return a time, as milliseconds since the epoch, or a duration in whole milliseconds."""
    return time.seconds * 1000 + time.nanos // 1_000_000


def from_milliseconds(milliseconds: int) -> Timestamp:
    """Return the time that is so many milliseconds after the epoch."""
    seconds, rest = divmod(milliseconds, 1000)
    return Timestamp(seconds=seconds, nanos=rest * 1_000_000)


@lru_cache(maxsize=4096)
def _minute_text(minute: int) -> str:
    # The times of one answer, and of many answers, lie close together: all but the seconds is remembered.
    return (_EPOCH + timedelta(minutes=minute)).isoformat()[:17]
