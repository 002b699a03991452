"""Log lines of a process, and those that this process writes."""

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from backend.common.log_events import CALL, RUN, STEP
from telemetry import log_output
from telemetry.log_events import COMMON_FIELDS, LINES_DROPPED, MESSAGE, MESSAGE_FIELDS, PROCESS, EventLog
from telemetry.log_output import LogOutput
from telemetry.requests import CONSOLE_REQUEST, REQUEST

EVENTS = {each.event: each for each in (REQUEST, CONSOLE_REQUEST, CALL, RUN, STEP, PROCESS, LINES_DROPPED)}


def lines_of(text: str) -> list[dict[str, Any]]:
    """Returns the lines of a log, each with known fields only."""
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        event = line["event"]
        own = MESSAGE_FIELDS if event == MESSAGE else EVENTS[event].fields
        assert set(line) <= {*COMMON_FIELDS, *own}, line
        assert set(COMMON_FIELDS[:7]) <= set(line), line
    return lines


class WrittenLog:
    """What this process writes to a log of its own while a test runs."""

    def __init__(self, path: Path, output: LogOutput) -> None:
        self._path = path
        self.output = output

    def lines(self) -> list[dict[str, Any]]:
        """Returns all lines so far."""
        return lines_of(self.text())

    def text(self) -> str:
        """Returns the log so far."""
        self.output.flush()
        return self._path.read_text()


@contextmanager
def written_log(path: Path, *events: EventLog, level: str = "INFO") -> Iterator[WrittenLog]:
    """Has this process write lines of these events, at this level, to a file."""
    before = log_output.output()
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    output = LogOutput(descriptor, "edge")
    log_output.replace_output(output)
    try:
        for event in events:
            logging.getLogger(event.logger).setLevel(level)
        yield WrittenLog(path, output)
    finally:
        for event in events:
            logging.getLogger(event.logger).setLevel(logging.NOTSET)
        output.flush()
        log_output.replace_output(before)
