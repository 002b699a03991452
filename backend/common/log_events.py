"""The log lines of a backend and of a worker; docs/logs.md explains each to operators."""

from typing import Final

from telemetry.log_events import EventLog

CALL: Final = EventLog(
    "call", "backend.calls", ("request_id", "key_id", "rpc", "code", "reason", "ms", "run_id", "subject_key_id")
)
RUN: Final = EventLog(
    "run",
    "backend.services.runs.changes",
    ("run_id", "request_id", "key_id", "workflow_id", "segment_id", "from", "to", "reason", "ms"),
)
STEP: Final = EventLog("step", "backend.services.runs.steps", ("run_id", "segment_id", "step", "attempt", "to"))
