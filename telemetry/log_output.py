"""Output of this process's log lines, and their form; there is none until the process is set up to log.

A thread writes the lines, so that nobody who logs ever waits for whoever reads them: a pipe that is not read takes
64 KB and then blocks its writer. Lines wait in a bounded buffer instead; those that find it full are dropped and
counted.
"""

import json
import os
import re
import select
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final

import orjson

from telemetry.metrics import Counter

Fields = Mapping[str, Any]
"""Fields of a line besides its time, level, logger and message, by name: ids, numbers and words of short lists."""

# With the rest of its line, an exception stays within what pipes take as a whole.
_EXCEPTION_BYTES: Final = 3_000
_CUT: Final = "\n  ...\n"
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_COLOURS: Final = MappingProxyType(
    {"debug": "\x1b[2m", "info": "\x1b[32m", "warning": "\x1b[33m", "error": "\x1b[31m", "critical": "\x1b[1;31m"}
)
_DIM: Final = "\x1b[2m"
_PLAIN: Final = "\x1b[0m"

FORMATS: Final = ("auto", "json", "text")
AUTO: Final = "auto"
"""Text where standard error is a terminal, JSON elsewhere."""

LOGGER: Final = "telemetry.log_output"
DROPPED: Final = "log_lines_dropped"
"""Event of the line that says how many were dropped."""

_FLUSH_SECONDS: Final = 1.0
_STANDARD_ERROR: Final = 2

DROPPED_LINES: Final = Counter(
    "log_lines_dropped_total", "Log lines dropped because whoever reads the log was too slow."
)

MOST_LINES: Final = 16_384
"""Lines that wait to be written; further ones are dropped."""

_GATHER_SECONDS: Final = 0.05
"""Seconds for which lines are gathered that need not be written at once."""

# Of a write to a pipe up to so many bytes are never interleaved with those of other processes.
_ATOMIC_BYTES: Final = select.PIPE_BUF
_FILE_BYTES: Final = 65_536
_POLL_SECONDS: Final = 0.005


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


class LogOutput:
    """Formats lines, and gives them to the thread that writes them. Thread-safe.

    `part` is what this process is: `serve`, `edge`, `console`, `backend` or `worker`. A line may carry the trace that
    it belongs to where `trace_id` is set, which returns an empty text outside of traces.
    """

    def __init__(self, descriptor: int, part: str) -> None:
        self.part = part
        self.as_json = True
        self.trace_id: Callable[[], str] | None = None
        self.version = 0
        """Rises whenever levels, format or `trace_id` change."""
        self.timestamp = Clock()
        self._colour = False
        self._pid = os.getpid()
        self._is_terminal = os.isatty(descriptor)
        self._writer = LogWriter(descriptor, self._dropped)
        self.write_soon = self._writer.write_soon
        """Takes a whole line, with its line end, that is written within 50 ms."""

    def set_format(self, form: str, *, colour: bool) -> None:
        """Takes one of `FORMATS`, and whether text on a terminal may have colours."""
        self.as_json = form == "json" or (form == AUTO and not self._is_terminal)
        self._colour = colour and self._is_terminal

    def head(self, level: str, logger: str, event: str) -> str:
        """Returns what lines of JSON of a kind have between their time and their message."""
        return (
            f'","level":"{level}","part":"{self.part}","pid":{self._pid},"logger":"{logger}","event":"{event}",'
            '"message":"'
        )

    def line(
        self, level: str, logger: str, event: str, message: str, fields: Fields, exception: str = "", at: float = 0.0
    ) -> bytes:
        """Returns a whole line, without fields that are None or empty.

        `at` is its time in seconds since the epoch, now where it is 0.
        """
        timestamp = self.timestamp(at or time.time())
        shown = {name: value for name, value in fields.items() if value is not None and value != ""}
        trace_id = self.trace_id() if self.trace_id is not None else ""
        if trace_id:
            shown["trace_id"] = trace_id
        exception = shortened(exception)
        if not self.as_json:
            return text_line(timestamp, level, logger, message, shown, exception, colour=self._colour)
        line: dict[str, object] = {
            "timestamp": timestamp,
            "level": level,
            "part": self.part,
            "pid": self._pid,
            "logger": logger,
            "event": event,
            "message": message,
        }
        line |= shown
        if exception:
            line["exception"] = exception
        return json_line(line)

    def write(self, line: bytes) -> None:
        """Writes a whole line at once."""
        self._writer.write(line)

    def flush(self) -> None:
        """Waits for what is queued, for up to a second."""
        self._writer.flush(_FLUSH_SECONDS)

    def _dropped(self, count: int) -> bytes:
        message = f"{count} log lines were dropped: whoever reads them is too slow"
        return self.line("warning", LOGGER, DROPPED, message, {"count": count})


class _Process:
    """The output of this process."""

    output: LogOutput | None = None


def output() -> LogOutput | None:
    """Returns where lines of this process go; None where it does not log."""
    return _Process.output


def open_output(part: str) -> LogOutput:
    """Returns the output to standard error, which lines of this process go to from now on; the same for each call."""
    if _Process.output is None:
        _Process.output = LogOutput(_STANDARD_ERROR, part)
    _Process.output.part = part
    return _Process.output


def replace_output(other: LogOutput | None) -> None:
    """Has the lines of this process go elsewhere, or nowhere."""
    _Process.output = other


def set_trace_ids(source: Callable[[], str] | None) -> None:
    """Has every line carry the id that `source` returns where it is written, unless it is empty; None ends that."""
    if _Process.output is not None:
        _Process.output.trace_id = source
        _Process.output.version += 1


class LogWriter:
    """Writes whole lines to a file descriptor. Thread-safe, without a lock that one who logs could wait for.

    `on_dropped(count)` returns the line that reports the lines dropped since the last one, which is written as soon as
    there is room again.
    """

    def __init__(self, descriptor: int, on_dropped: Callable[[int], bytes], most_lines: int = MOST_LINES) -> None:
        self._descriptor = descriptor
        self._on_dropped = on_dropped
        self._most_lines = most_lines
        self._write_bytes = _FILE_BYTES if stat.S_ISREG(os.fstat(descriptor).st_mode) else _ATOMIC_BYTES
        self._lines: deque[bytes] = deque()
        self._dropped = 0
        self._awake = False
        self._writing = False
        self._closed = False
        self._filled = threading.Event()
        self._urgent = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log-writer", daemon=True)
        self._thread.start()

    def write(self, line: bytes) -> None:
        """Queues one line, which ends in a line feed, and has it written at once."""
        self.write_soon(line)
        self._urgent.set()

    def write_soon(self, line: bytes) -> None:
        """Queues one line, which ends in a line feed; it is written with those of the next 50 ms."""
        lines = self._lines
        if len(lines) >= self._most_lines:
            self._dropped += 1
            DROPPED_LINES.add()
            return
        lines.append(line)
        if not self._awake:
            self._awake = True
            self._filled.set()

    def flush(self, seconds: float) -> None:
        """Waits until everything queued is written, for up to so many seconds."""
        until = time.monotonic() + seconds
        while (self._lines or self._writing) and time.monotonic() < until:
            self._urgent.set()
            time.sleep(_POLL_SECONDS)

    def close(self) -> None:
        """Ends the thread once it has written what is queued; nothing may be queued from then on."""
        self._closed = True
        self._urgent.set()
        self._filled.set()
        self._thread.join()

    def _run(self) -> None:
        while self._lines or not self._closed:
            self._filled.wait()
            self._urgent.wait(_GATHER_SECONDS)
            self._writing = True
            self._urgent.clear()
            self._filled.clear()
            # Only then are lines taken: who adds one from now on sets the event again.
            self._awake = False
            for batch in self._take_batches():
                self._write_all(batch)
            if self._dropped:
                self._report_dropped()
            self._writing = False

    def _take_batches(self) -> list[bytes]:
        """Removes the lines queued by now; returns them in writes of up to so many bytes, a longer line alone."""
        batches, size = [bytearray()], 0
        for _ in range(len(self._lines)):
            line = self._lines.popleft()
            if size and size + len(line) > self._write_bytes:
                batches.append(bytearray())
                size = 0
            batches[-1] += line
            size += len(line)
        return [*map(bytes, batches)]

    def _report_dropped(self) -> None:
        dropped, self._dropped = self._dropped, 0
        self._write_all(self._on_dropped(dropped))

    def _write_all(self, data: bytes) -> None:
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:
                # Another process has set what they share to not block.
                with suppress(OSError):
                    select.select([], [self._descriptor], [])
            except OSError:
                # Whoever read the log has gone: there is nowhere to say so.
                DROPPED_LINES.add_many(data.count(b"\n"))
                return
