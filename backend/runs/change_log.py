"""The log lines of runs: one for each change of a run's status, and of its steps, once the change is committed."""

from collections.abc import Iterable
from functools import partial
from typing import Final

from backend.log_events import RUN, STEP
from backend.runs.new_events import NewEvent
from backend.storage.database import Tx
from telemetry.log_events import DEBUG, INFO

ERASED: Final = "erased"
"""What a finished run becomes in the log when its data is erased; its status stays."""

_STEP: Final = "step."
_FAILED: Final = "step.failed"


def log_change(
    tx: Tx,
    run_id: str,
    before: str | None,
    after: str,
    *,
    key_id: str | None = None,
    workflow_id: str | None = None,
    segment_id: str | None = None,
    request_id: str | None = None,
    reason: str | None = None,
    milliseconds: int | None = None,
) -> None:
    """Logs that a run has changed; `before` is None of a new one, `milliseconds` the time since it was started."""
    if RUN.enabled():
        fields = run_fields(run_id, before, after, key_id, workflow_id, segment_id, request_id)
        tx.after_commit(partial(RUN.write, message_of(before, after), fields | {"reason": reason, "ms": milliseconds}))


def log_steps(tx: Tx, run_id: str, segment_id: str, events: Iterable[NewEvent]) -> None:
    """Logs changes of steps by their events: failures at `info`, all others at `debug`."""
    if not STEP.enabled():
        return
    for event in events:
        level = INFO if event.type == _FAILED else DEBUG
        if event.step is None or not event.type.startswith(_STEP) or not STEP.enabled(level):
            continue
        fields = {
            "run_id": run_id,
            "segment_id": segment_id,
            "step": event.step,
            "attempt": event.data.get("attempt") if event.data else None,
            "to": event.type.removeprefix(_STEP),
        }
        tx.after_commit(partial(STEP.write, event.type, fields, level))


def run_fields(
    run_id: str,
    before: str | None,
    after: str,
    key_id: str | None,
    workflow_id: str | None,
    segment_id: str | None,
    request_id: str | None,
) -> dict[str, object]:
    """Returns the fields of a line of a run."""
    return {
        "run_id": run_id,
        "from": before and str(before),
        "to": str(after),
        "key_id": key_id,
        "workflow_id": workflow_id,
        "segment_id": segment_id,
        "request_id": request_id,
    }


def message_of(before: str | None, after: str) -> str:
    """Returns the message of a line of a run."""
    return f"run {before} -> {after}" if before else "run erased" if after == ERASED else f"run started, {after}"
