"""Text for a terminal: width and colours, escaping of control characters, and times for people."""

import datetime as dt
import os
import shutil
import sys
from collections.abc import Mapping
from typing import Final, TextIO

from deploy.failures import CommandError

_ESCAPE: Final = "\x1b["
_GREEN, _RED, _YELLOW, _CYAN, _DIM = "32", "31", "33", "36", "2"

_COLOUR_OF_STATUS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("completed", "active", "approved", "passed", "created", "ready"), _GREEN),
    **dict.fromkeys(("failed", "blocked", "rejected", "revoked", "expired", "not passed", "not ready"), _RED),
    **dict.fromkeys(("waiting_for_approval", "rotating", "draft", "updated", "not tested"), _YELLOW),
    **dict.fromkeys(("running", "queued"), _CYAN),
    **dict.fromkeys(("cancelled", "skipped", "pending", "inactive", "unchanged", "disabled"), _DIM),
}


def print_failure(failure: CommandError, *, as_json: bool) -> None:
    """Prints a command's failure on standard error, as JSON or text."""
    print(failure.to_json() if as_json else printable(failure.to_text(), lines=True), file=sys.stderr)


def printable(text: str, *, lines: bool = False) -> str:
    """Returns text with control characters and lone surrogates escaped; with `lines`, line ends stay."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or (lines and char == "\n") else char.encode("unicode_escape").decode()
        for char in text
    )


def is_terminal(stream: TextIO) -> bool:
    """Returns whether a stream is a terminal that can move its cursor."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def shows_colours(stream: TextIO) -> bool:
    """Returns whether text on a stream is coloured: on a terminal, unless NO_COLOR is set."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


def width_of(stream: TextIO) -> int | None:
    """Returns the columns of a terminal, None for a pipe or a file, whose lines may have any length."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def in_status_colour(text: str, status: str, *, colours: bool | None = None) -> str:
    """Returns text in the colour of a status; unchanged without `colours`, or if the status has no colour."""
    colour = _COLOUR_OF_STATUS.get(status.partition(" ")[0] if status not in _COLOUR_OF_STATUS else status)
    if colour is None or not (shows_colours(sys.stdout) if colours is None else colours):
        return text
    return f"{_ESCAPE}{colour}m{text}{_ESCAPE}0m"


_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_LONGEST_RELATIVE: Final = 400 * _DAY
_JUST_NOW: Final = 2


def relative_time(text: str, now: dt.datetime | None = None) -> str:
    """Returns an ISO 8601 time as `5 min ago` or `in 3 days`; other text, and far times, stay unchanged."""
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
