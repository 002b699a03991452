"""Log lines of frequent events, such as requests, calls and changes of runs; each kind with its fields.

These lines do not pass through `logging`, which takes five times as long for a line, but its levels apply.
"""

import logging
from typing import Final

from telemetry.log_output import DROPPED, LOGGER, Fields, output

DEBUG: Final = logging.DEBUG
INFO: Final = logging.INFO

COMMON_FIELDS: Final = (
    *("timestamp", "level", "part", "pid", "logger", "event", "message"),
    *("exception", "trace_id"),
)
"""Fields of every line; the last two only where there is a value."""

MESSAGE: Final = "message"
"""Event of lines without a kind of their own."""

MESSAGE_FIELDS: Final = ("request_id", "run_id")
"""Further fields, given to `logging` as `extra`; a run's id in the message is used if none is given."""


class EventLog:
    """Writer of the lines of one kind of event, under a logger's name; `fields` are the allowed field names.

    Values are ids, numbers and words of short lists, never a text of a caller or of a workflow.
    """

    def __init__(self, event: str, logger: str, fields: tuple[str, ...]) -> None:
        self.event = event
        self.logger = logger
        self.fields = fields
        self._logger = logging.getLogger(logger)

    def enabled(self, level: int = INFO) -> bool:
        """Returns whether lines of this level are written."""
        return self._logger.isEnabledFor(level) and output() is not None

    def write(self, message: str, fields: Fields, level: int = INFO) -> None:
        """Writes a line, within 50 ms, if the level is enabled."""
        out = output()
        if out is not None and self._logger.isEnabledFor(level):
            name = logging.getLevelName(level).lower()
            out.write_soon(out.line(name, self.logger, self.event, message, fields))


LINES_DROPPED: Final = EventLog(DROPPED, LOGGER, ("count",))
"""Line with the number of dropped lines, written by the output itself."""

PROCESS: Final = EventLog("process", "deploy.process", ("to", "release", "base_address", "console", "grpc", "metrics"))
"""Line at the start of serving, with addresses, and at the beginning of the stop."""
