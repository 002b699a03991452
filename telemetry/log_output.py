"""Where the log lines of this process go, and their form; there is none until the process is set up to log."""

import os
from collections.abc import Callable
from time import time
from typing import Final

from telemetry.log_lines import Clock, Fields, json_line, shortened, text_line
from telemetry.log_writer import LogWriter

FORMATS: Final = ("auto", "json", "text")
AUTO: Final = "auto"
"""Text where standard error is a terminal, JSON elsewhere."""

LOGGER: Final = "telemetry.log_output"
DROPPED: Final = "log_lines_dropped"
"""Event of the line that says how many were dropped."""

_FLUSH_SECONDS: Final = 1.0
_STANDARD_ERROR: Final = 2


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
        timestamp = self.timestamp(at or time())
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
