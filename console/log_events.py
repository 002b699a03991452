"""The log lines of a console; docs/logs.md says what each means to an operator."""

from typing import Final

from telemetry.log_events import EventLog
from telemetry.request_lines import ANSWERED

CONSOLE_REQUEST: Final = EventLog("console_request", "console.requests", ANSWERED)
