"""Formatting and output of this process's log lines, once `open_output` was called.

A thread writes the lines, so that logging never waits for the reader: a pipe that is not read takes 64 KB and then
blocks its writer. Lines wait in a bounded buffer; when the buffer is full, further lines are dropped and counted.
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

# Bounded so that the whole line stays below the size of atomic writes to pipes.
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
"""Event of the line that reports dropped lines."""

_FLUSH_SECONDS: Final = 1.0
_STANDARD_ERROR: Final = 2

DROPPED_LINES: Final = Counter(
    "log_lines_dropped_total", "Log lines dropped because whoever reads the log was too slow."
)

MOST_LINES: Final = 16_384
"""Lines that wait to be written; further ones are dropped."""

_GATHER_SECONDS: Final = 0.05
"""Seconds for which lines are gathered unless they must be written at once."""

# Writes to a pipe of up to this many bytes are never interleaved with other processes' writes.
_ATOMIC_BYTES: Final = select.PIPE_BUF
_FILE_BYTES: Final = 65_536
_POLL_SECONDS: Final = 0.005


def json_line(fields: Fields) -> bytes:
    """Returns a line of JSON with its line end."""
    try:
        return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        # A file name may hold bytes that are no UTF-8.
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
    """Returns text with escapes for characters that move a terminal's cursor or reverse text."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def shortened(exception: str) -> str:
    """Returns a traceback bounded in UTF-8 bytes, with the middle of a long one cut."""
    content = exception.encode("utf-8", "backslashreplace")
    if len(content) <= _EXCEPTION_BYTES:
        return exception
    half = _EXCEPTION_BYTES // 2
    # Partial characters and lines at a cut are left out, unless one line is all that is left.
    begin, end = (part.decode("utf-8", "ignore") for part in (content[:half], content[-half:]))
    return f"{begin.rpartition(chr(10))[0] or begin}{_CUT}{end.partition(chr(10))[2] or end}"


class Clock:
    """Formatter of UTC times to the millisecond; caches the texts of a second and of a millisecond."""

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
    """Formatter of log lines, which its `LogWriter` writes. Thread-safe.

    `part` is the part that this process runs: `serve`, `edge`, `console`, `backend` or `worker`. If `trace_id` is set,
    lines within a trace carry the id that it returns; it returns an empty text outside of traces.
    """

    def __init__(self, descriptor: int, part: str) -> None:
        self.part = part
        self.as_json = True
        self.trace_id: Callable[[], str] | None = None
        self.version = 0
        """Number that grows whenever levels, format or `trace_id` change."""
        self.timestamp = Clock()
        self._colour = False
        self._pid = os.getpid()
        self._is_terminal = os.isatty(descriptor)
        self._writer = LogWriter(descriptor, self._dropped)
        self.write_soon = self._writer.write_soon
        """Queues a whole line, with its line end, to be written within 50 ms."""

    def set_format(self, form: str, *, colour: bool) -> None:
        """Sets one of `FORMATS`; with `colour` text on a terminal has colours."""
        self.as_json = form == "json" or (form == AUTO and not self._is_terminal)
        self._colour = colour and self._is_terminal

    def head(self, level: str, logger: str, event: str) -> str:
        """Returns the text between time and message, which all JSON lines of a kind share."""
        return (
            f'","level":"{level}","part":"{self.part}","pid":{self._pid},"logger":"{logger}","event":"{event}",'
            '"message":"'
        )

    def line(
        self, level: str, logger: str, event: str, message: str, fields: Fields, exception: str = "", at: float = 0.0
    ) -> bytes:
        """Returns a whole line, without fields that are None or empty.

        `at` is the line's time in seconds since the epoch; 0 means now.
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
        """Waits until queued lines are written, for up to a second."""
        self._writer.flush(_FLUSH_SECONDS)

    def _dropped(self, count: int) -> bytes:
        message = f"{count} log lines were dropped: whoever reads them is too slow"
        return self.line("warning", LOGGER, DROPPED, message, {"count": count})


class _Process:
    """The output of this process."""

    output: LogOutput | None = None


def output() -> LogOutput | None:
    """Returns the output of this process's lines; None before `open_output`."""
    return _Process.output


def open_output(part: str) -> LogOutput:
    """Sends this process's lines to standard error from now on; returns the output, one for all calls."""
    if _Process.output is None:
        _Process.output = LogOutput(_STANDARD_ERROR, part)
    _Process.output.part = part
    return _Process.output


def replace_output(other: LogOutput | None) -> None:
    """Sends this process's lines to another output; None drops them."""
    _Process.output = other


def set_trace_ids(source: Callable[[], str] | None) -> None:
    """Adds the trace id that `source` returns, unless empty, to every line; None adds no ids."""
    if _Process.output is not None:
        _Process.output.trace_id = source
        _Process.output.version += 1


class LogWriter:
    """Writer of whole lines to a file descriptor, in a thread. Thread-safe without locks that logging could wait for.

    `on_dropped(count)` returns the line that reports dropped lines, written as soon as the buffer has space again.
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
        """Queues one line, which ends in a line feed, to be written at once."""
        self.write_soon(line)
        self._urgent.set()

    def write_soon(self, line: bytes) -> None:
        """Queues one line, which ends in a line feed, to be written with the lines of the next 50 ms."""
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
        """Waits until all queued lines are written, for at most `seconds`."""
        until = time.monotonic() + seconds
        while (self._lines or self._writing) and time.monotonic() < until:
            self._urgent.set()
            time.sleep(_POLL_SECONDS)

    def close(self) -> None:
        """Ends the thread once it has written all queued lines; no line may be queued afterwards."""
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
            # Cleared before lines are taken, so that a line added afterwards sets the event again.
            self._awake = False
            for batch in self._take_batches():
                self._write_all(batch)
            if self._dropped:
                self._report_dropped()
            self._writing = False

    def _take_batches(self) -> list[bytes]:
        """Removes the queued lines; returns them joined to writes of bounded size, a longer line alone."""
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
                # Another process that shares the descriptor has made it non-blocking.
                with suppress(OSError):
                    select.select([], [self._descriptor], [])
            except OSError:
                # The log's reader has closed the pipe, so the failure cannot be logged.
                DROPPED_LINES.add_many(data.count(b"\n"))
                return
