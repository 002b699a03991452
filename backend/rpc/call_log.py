"""The log line of each call: at `info` of one that changes something, at `debug` of any other."""

from collections.abc import Callable
from time import perf_counter
from typing import Any, Final

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.descriptor_pb2 import MethodOptions

from backend.log_events import CALL
from contract import ids
from contract.metadata import KEY_ID, REQUEST_ID
from telemetry.log_events import DEBUG, INFO

# What edges and consoles do by themselves all the time, and what only follows.
_ROUTINE: Final = frozenset({"GetSession", "RecordUsage", "WatchKeyMirror", "WatchRunChanges"})
# As contexts of calls in the same process name their peer.
_IN_PROCESS: Final = "in-process"

CallLog = Callable[[Any, grpc.ServicerContext, float, str, str], None]
"""Takes the request, its context, when it began by `perf_counter`, the status code and the reason of a refusal."""


def call_log(method: MethodDescriptor, label: str) -> CallLog:
    """Returns what writes the lines of a method, which metrics and lines name `label`."""
    reads = method.GetOptions().idempotency_level == MethodOptions.NO_SIDE_EFFECTS
    level = DEBUG if reads or method.name in _ROUTINE else INFO

    def log(request: Any, context: grpc.ServicerContext, began: float, code: str, reason: str) -> None:
        if not CALL.enabled(level):
            return
        metadata: dict[str, Any] = dict(context.invocation_metadata() or ())
        shown = level
        if level == INFO and KEY_ID in metadata and context.peer() == _IN_PROCESS:
            # The edge in this process has a line for the request.
            if not CALL.enabled(DEBUG):
                return
            shown = DEBUG
        request_id = metadata.get(REQUEST_ID, "")
        key_id = metadata.get(KEY_ID, "")
        run_id = getattr(request, "run_id", "")
        subject = getattr(request, "key_id", "")
        fields = {
            "rpc": label,
            "code": code,
            "reason": reason,
            # Callers over gRPC may send anything.
            "request_id": request_id if ids.ANY_ID.fullmatch(request_id) else "",
            "key_id": key_id if ids.ANY_ID.fullmatch(key_id) else "",
            "run_id": run_id if run_id and ids.RUN_ID.fullmatch(run_id) else "",
            "subject_key_id": subject if isinstance(subject, str) and ids.KEY_ID.fullmatch(subject) else "",
            "ms": round((perf_counter() - began) * 1000, 3),
        }
        CALL.write(f"{label} {code}", fields, shown)

    return log
