"""Times and durations as people read them."""

import datetime as dt
from typing import Final

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_LONGEST_RELATIVE: Final = 400 * _DAY
_JUST_NOW: Final = 2


def relative_time(text: str, now: dt.datetime | None = None) -> str:
    """Returns an ISO 8601 time as `5 min ago` or `in 3 days`; text that is none, or is far away, stays as it is."""
    try:
        at = dt.datetime.fromisoformat(text)
    except ValueError:
        return text
    if at.tzinfo is None:
        return text
    seconds = ((now or dt.datetime.now(dt.UTC)) - at).total_seconds()
    if abs(seconds) > _LONGEST_RELATIVE:
        return at.astimezone(dt.UTC).date().isoformat()
    if abs(seconds) < _JUST_NOW:
        return "now"
    return f"{_rough(seconds)} ago" if seconds > 0 else f"in {_rough(-seconds)}"


def duration_text(milliseconds: float) -> str:
    """Returns a duration as `340 ms`, `1.2 s`, `2 min 5 s` or `3 h 10 min`."""
    if milliseconds < 1_000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1_000
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < _MINUTE:
        return f"{seconds:.0f} s"
    whole = round(seconds)
    if whole < _HOUR:
        return _two(whole, _MINUTE, "min", 1, "s")
    return _two(whole, _HOUR, "h", _MINUTE, "min") if whole < _DAY else _two(whole, _DAY, "d", _HOUR, "h")


def _rough(seconds: float) -> str:
    if seconds < _MINUTE:
        return f"{seconds:.0f} s"
    if seconds < _HOUR:
        return f"{seconds / _MINUTE:.0f} min"
    if seconds < 2 * _DAY:
        return f"{seconds / _HOUR:.0f} h"
    return f"{seconds / _DAY:.0f} days"


def _two(seconds: int, large: int, large_name: str, small: int, small_name: str) -> str:
    rest = seconds % large // small
    return f"{seconds // large} {large_name}" + (f" {rest} {small_name}" if rest else "")
