"""Times and time spans in messages, as milliseconds."""

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp


def set_milliseconds(target: Timestamp | Duration, milliseconds: int) -> None:
    """Sets a time, by its milliseconds since the epoch, or a time span.

    Setting a field of a message in place takes a third of the time that copying a message into it takes.
    """
    target.seconds, rest = divmod(milliseconds, 1000)
    target.nanos = rest * 1_000_000


def milliseconds_of(time: Timestamp | Duration) -> int:
    """Returns a time, in milliseconds since the epoch, or a time span, rounded down to whole milliseconds."""
    return time.seconds * 1000 + time.nanos // 1_000_000


def to_timestamp(milliseconds: int) -> Timestamp:
    """Returns the time that is so many milliseconds after the epoch."""
    timestamp = Timestamp()
    set_milliseconds(timestamp, milliseconds)
    return timestamp


def to_duration(milliseconds: int) -> Duration:
    """Returns a time span of so many milliseconds."""
    duration = Duration()
    set_milliseconds(duration, milliseconds)
    return duration
