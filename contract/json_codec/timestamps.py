"""Times as `2026-09-24T10:15:30.123+00:00` (contract 2.1)."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache

from google.protobuf.timestamp_pb2 import Timestamp

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def timestamp_text(timestamp: Timestamp) -> str:
    """Returns a time in UTC with milliseconds, cut off rather than rounded, and an explicit offset."""
    return f"{_second_text(timestamp.seconds)}.{timestamp.nanos // 1_000_000:03d}+00:00"


@lru_cache(maxsize=4096)
def _second_text(seconds: int) -> str:
    # The times of one answer, and of many answers, lie close together: all but the milliseconds is remembered.
    return (_EPOCH + timedelta(seconds=seconds)).isoformat()[:19]
