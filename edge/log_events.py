"""The log lines of an edge; docs/logs.md says what each means to an operator."""

from typing import Final

from telemetry.log_events import EventLog
from telemetry.request_lines import ANSWERED

REQUEST: Final = EventLog("request", "edge.requests", (*ANSWERED, "key_id", "run_id", "waited_ms", "cause"))
