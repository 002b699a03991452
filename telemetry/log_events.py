"""Log lines of events that happen all the time: requests, calls, changes of runs; each kind with its fields.

They do not pass through `logging`, which takes five times as long for a line, but its levels hold for them.
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
"""Fields of every line; the last two where there is one."""

MESSAGE: Final = "message"
"""The event of all lines that are not of a kind of their own."""

MESSAGE_FIELDS: Final = ("request_id", "run_id")
"""Further fields, given to `logging` as `extra`; the id of a run is that in the message, if none is."""


class EventLog:
    """Lines of one kind of event, below a logger's name; `fields` are those that they may have.

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
        """Writes a line, within 50 ms, if its level is enabled."""
        out = output()
        if out is not None and self._logger.isEnabledFor(level):
            name = logging.getLevelName(level).lower()
            out.write_soon(out.line(name, self.logger, self.event, message, fields))


LINES_DROPPED: Final = EventLog(DROPPED, LOGGER, ("count",))
"""The line that says how many lines were dropped; the output itself writes it."""

PROCESS: Final = EventLog("process", "deploy.process", ("to", "release", "base_address", "console", "grpc", "metrics"))
"""The line that a process serves, and where, or that it begins to stop."""
