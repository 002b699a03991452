"""Makes the records of a run's changes: event rows for callers, and log lines for operators."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

from backend.common import json_text
from backend.common.json_text import JsonMapping
from backend.common.log_events import RUN, STEP
from backend.storage.database import Tx
from backend.storage.tables.segments import EventRow
from telemetry.log_events import DEBUG, INFO

ERASED: Final = "erased"
"""Status in the log of a run whose data was erased; the run's own status stays."""

_STEP: Final = "step."
_FAILED: Final = "step.failed"


class NewEvent(NamedTuple):
    """An event without a seq, which `event_rows` adds."""

    type: str
    step: str | None = None
    data: JsonMapping | None = None


SEGMENT_ENDED: Final = NewEvent("segment.ended")
"""The last event of a segment."""


def begin_events(ordinal: int) -> list[NewEvent]:
    """Returns the first events of a segment."""
    begun = NewEvent("segment.started", data={"ordinal": ordinal})
    return [begun, NewEvent("run.started")] if ordinal == 1 else [begun]


def event_rows(segment_id: str, first_seq: int, at: int, new: Sequence[NewEvent]) -> list[EventRow]:
    """Returns the rows of new events, with seqs from `first_seq` on."""
    return [
        EventRow(
            segment_id=segment_id,
            seq=seq,
            type=kind,
            at=at,
            step=step,
            data=json_text.write(data) if data else "{}",
        )
        for seq, (kind, step, data) in enumerate(new, first_seq)
    ]


def log_change(
    tx: Tx | None,
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
    """Logs that a run has changed, once `tx` is committed; at once without one.

    `before` is None for a new run; `milliseconds` is the time since the start.
    """
    if not RUN.enabled():
        return
    message = f"run {before} -> {after}" if before else "run erased" if after == ERASED else f"run started, {after}"
    fields = {
        "run_id": run_id,
        "from": before and str(before),
        "to": str(after),
        "key_id": key_id,
        "workflow_id": workflow_id,
        "segment_id": segment_id,
        "request_id": request_id,
        "reason": reason,
        "ms": milliseconds,
    }
    if tx is None:
        RUN.write(message, fields)
    else:
        tx.after_commit(partial(RUN.write, message, fields))


def log_steps(tx: Tx, run_id: str, segment_id: str, events: Iterable[NewEvent]) -> None:
    """Logs changes of steps by their events: failures at `info`, other changes at `debug`."""
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
