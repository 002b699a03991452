"""Parses ISO 8601 date-times of requests to Timestamps."""

import re
from datetime import datetime, timedelta
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

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


def parse_date_time(text: str) -> Timestamp:
    """Returns the time that a text means; it is UTC where the text has no offset.

    A fraction finer than nanoseconds still lies after its millisecond. A time that its offset moves beyond the years
    1 to 9999 becomes the first or the last second of them.

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
