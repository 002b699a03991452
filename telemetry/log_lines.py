"""The forms of a log line: one JSON object for machines, or a line of text for a person at a terminal."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final

import orjson

Fields = Mapping[str, Any]
"""What a line says besides its time, level, logger and message, by name: ids, numbers and words of short lists."""

# With the rest of its line, an exception stays within what pipes take as a whole.
_EXCEPTION_BYTES: Final = 3_000
_CUT: Final = "\n  ...\n"
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_COLOURS: Final = MappingProxyType(
    {"debug": "\x1b[2m", "info": "\x1b[32m", "warning": "\x1b[33m", "error": "\x1b[31m", "critical": "\x1b[1;31m"}
)
_DIM: Final = "\x1b[2m"
_PLAIN: Final = "\x1b[0m"


class Clock:
    """Formats times in UTC, to the millisecond; the texts of a second and of a millisecond are made once."""

    def __init__(self) -> None:
        self._second = (-1, "")
        self._millisecond = (-1, "")

    def __call__(self, seconds: float) -> str:
        """Returns a time since the epoch, as `2026-09-24T10:11:12.123+00:00`."""
        number = int(seconds * 1000)
        made, text = self._millisecond
        if made == number:
            return text
        whole, part = divmod(number, 1000)
        second, start = self._second
        if whole != second:
            start = datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%dT%H:%M:%S.")
            self._second = whole, start
        text = f"{start}{part:03d}+00:00"
        self._millisecond = number, text
        return text


def json_line(fields: Fields) -> bytes:
    """Returns a line of JSON with its line end."""
    try:
        return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        # A file's name may have bytes that are no UTF-8.
        return json.dumps(fields, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def text_line(
    timestamp: str, level: str, logger: str, message: str, fields: Fields, exception: str, *, colour: bool
) -> bytes:
    """Returns a line of text with its line end, and an exception on lines below it."""
    shown = " ".join(f"{name}={value}" for name, value in fields.items())
    parts = (timestamp[11:23], level.upper().ljust(8), logger, visible(message), visible(shown))
    if colour:
        shades = (_DIM, _COLOURS.get(level, ""), _DIM, "", _DIM)
        parts = tuple(
            f"{shade}{part}{_PLAIN}" if shade and part else part for shade, part in zip(shades, parts, strict=True)
        )  # type: ignore[assignment]
    below = "".join(f"\n    {visible(line)}" for line in exception.splitlines())
    return f"{'  '.join(part for part in parts if part)}{below}\n".encode("utf-8", "backslashreplace")


def visible(text: str) -> str:
    """Returns text with the characters escaped that would move a terminal's cursor or turn text around."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def shortened(exception: str) -> str:
    """Returns a traceback of few bytes in UTF-8, whose middle is cut where it is long."""
    content = exception.encode("utf-8", "backslashreplace")
    if len(content) <= _EXCEPTION_BYTES:
        return exception
    half = _EXCEPTION_BYTES // 2
    # Half a character at a cut is left out, with the rest of its line unless that is all there is.
    begin, end = (part.decode("utf-8", "ignore") for part in (content[:half], content[-half:]))
    return f"{begin.rpartition(chr(10))[0] or begin}{_CUT}{end.partition(chr(10))[2] or end}"
