"""Cron expressions in a time zone: validation, and due times in milliseconds since the epoch (as Debian's cron).

A fixed time of day that clocks skip is due at the first moment after it; a time that occurs twice is due the first
time. A minute or hour that begins with `*` is due each time.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

LONGEST: Final = 100
"""Most characters of an expression."""

SHORT_FORMS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class _CronField(NamedTuple):
    name: str
    allowed: str


_FIELDS: Final = (
    _CronField("minute", "0 to 59"),
    _CronField("hour", "0 to 23"),
    _CronField("day of month", "1 to 31, or L for the last"),
    _CronField("month", "1 to 12, or JAN to DEC"),
    _CronField("day of week", "0 to 7 from Sunday, or SUN to SAT"),
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SOME_DAY: Final = datetime(2026, 1, 1, tzinfo=UTC)
# Exceptions that CronSim raises for invalid text.
_REFUSALS: Final = (CronSimError, AssertionError, TypeError, ValueError)
_WINDOWS_MS: Final = (3_600_000, 86_400_000, 32 * 86_400_000, 367 * 86_400_000)


def cron_expression(value: object) -> str:
    """Returns the five fields of an expression, separated by single blanks.

    Raises:
        ValueError: it is invalid; the text names every wrong field and its allowed values.
    """
    if not isinstance(value, str):
        raise ValueError("must be text; put it in quotes")  # noqa: TRY004 - a value that is not allowed, like the others
    text = SHORT_FORMS.get(value.strip().lower(), value)
    parts = text.split()
    if len(text) > LONGEST:
        raise ValueError(f"must have at most {LONGEST} characters")
    if len(parts) != len(_FIELDS) or text.strip().startswith("@"):
        names = ", ".join(field.name for field in _FIELDS)
        raise ValueError(f"must have five fields ({names}), or be one of: {', '.join(SHORT_FORMS)}")
    wrong = [
        f"the {field.name} must be of {field.allowed}, with *, lists, ranges and steps, not {part!r}"
        for position, (field, part) in enumerate(zip(_FIELDS, parts, strict=True))
        if not _allowed(position, part)
    ]
    if wrong:
        raise ValueError("; ".join(wrong))
    cron = " ".join(parts)
    try:
        never = next(due_times(cron, "UTC", 0), None) is None
    except _REFUSALS:
        never = True
    if never:
        raise ValueError("must name a day that exists: it is never due")
    return cron


def _allowed(position: int, part: str) -> bool:
    fields = ["*"] * len(_FIELDS)
    fields[position] = part
    try:
        CronSim(" ".join(fields), _SOME_DAY)
    except _REFUSALS:
        return False
    return True


def time_zone(value: object) -> str:
    """Returns the name of a time zone of the IANA database.

    Raises:
        ValueError: the name is unknown; the text says which are allowed.
    """
    if isinstance(value, str) and value in _zones():
        return value
    raise ValueError("must be UTC or a time zone of the IANA database, such as Europe/Madrid")


@lru_cache(maxsize=1)
def _zones() -> frozenset[str]:
    return frozenset({"UTC", *(name for name in available_timezones() if name not in {"localtime", "posixrules"})})


@lru_cache(maxsize=256)
def _zone(name: str) -> tzinfo:
    return UTC if name == "UTC" else ZoneInfo(name)


def due_times(cron: str, zone: str, after: int) -> Iterator[int]:
    """Yields the due times of an expression after a time, in ascending order."""
    last = after
    begin = (_EPOCH + timedelta(milliseconds=after)).astimezone(_zone(zone))
    for due in CronSim(cron, begin):
        at = (due.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)
        # From within an hour that occurs twice, CronSim begins at the first occurrence.
        if at > last:
            yield at
            last = at


def next_due(cron: str, zone: str, after: int) -> int | None:
    """Returns the first due time after a time; None if there is none."""
    return next(due_times(cron, zone, after), None)


def due_until(cron: str, zone: str, first: int, until: int, most: int) -> tuple[int, int]:
    """Returns the number of due times from `first` to `until`, counted up to `most`, and the last of them."""
    found = [first, *islice(_until(cron, zone, first, until), most - 1)]
    if len(found) < most:
        return len(found), found[-1]
    # The last one is searched from the end, because there may be very many.
    for window in _WINDOWS_MS:
        newest = first
        for at in _until(cron, zone, max(first, until - window), until):
            newest = at
        if newest > first:
            return most, newest
    return most, found[-1]


def _until(cron: str, zone: str, after: int, until: int) -> Iterator[int]:
    for at in due_times(cron, zone, after):
        if at > until:
            return
        yield at
