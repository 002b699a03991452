"""SQL that reads runs and their parts."""

from typing import Any, Final

from sqlalchemy import BigInteger, bindparam, select

from backend.approval_state import ApprovalState
from backend.storage.database import Tx
from backend.storage.statements import prepare
from backend.storage.tables.runs import approvals, events, runs, segments, steps

_OF_RUN: Final = runs.c.run_id == bindparam("of_run_id")
_OF_KEY: Final = runs.c.key_id == bindparam("of_key_id")

_ANY_RUN = prepare(select(runs).where(_OF_RUN))
_RUN_OF_KEY = prepare(select(runs).where(_OF_RUN, _OF_KEY))
_STATE = select(
    runs.c.run_id, runs.c.status, runs.c.cancel_requested_at, runs.c.data_purged_at, runs.c.redaction_state
).where(_OF_RUN)
_ANY_STATE = prepare(_STATE)
_STATE_OF_KEY = prepare(_STATE.where(_OF_KEY))
_STEPS = prepare(select(steps).where(steps.c.run_id == bindparam("of_run_id")).order_by(steps.c.position))
_PENDING_APPROVALS = prepare(
    select(approvals)
    .where(approvals.c.run_id == bindparam("of_run_id"), approvals.c.state == ApprovalState.PENDING)
    .order_by(approvals.c.requested_at, approvals.c.approval_id)
)
_SEGMENTS = prepare(
    select(segments)
    .where(segments.c.run_id == bindparam("of_run_id"), segments.c.started_at.is_not(None))
    .order_by(segments.c.ordinal)
)
_EVENTS = prepare(
    select(events)
    .where(events.c.segment_id == bindparam("of_segment_id"), events.c.seq > bindparam("after_seq", type_=BigInteger))
    .order_by(events.c.seq)
    .limit(bindparam("limit"))
)


def run(tx: Tx, run_id: str, key_id: str | None) -> Any:
    """A run in full within the key's reach, or None; without a key every run is."""
    if key_id is None:
        return tx.one(_ANY_RUN, of_run_id=run_id)
    return tx.one(_RUN_OF_KEY, of_run_id=run_id, of_key_id=key_id)


def run_state(tx: Tx, run_id: str, key_id: str | None) -> Any:
    """What decides on the routes below a run: status, and when its data was erased; reach as in `run`."""
    if key_id is None:
        return tx.one(_ANY_STATE, of_run_id=run_id)
    return tx.one(_STATE_OF_KEY, of_run_id=run_id, of_key_id=key_id)


def board(tx: Tx, run_id: str) -> list[Any]:
    """The steps of a run in the order of its definition."""
    return tx.all(_STEPS, of_run_id=run_id)


def pending_approvals(tx: Tx, run_id: str) -> list[Any]:
    """What a run is parked on, oldest first."""
    return tx.all(_PENDING_APPROVALS, of_run_id=run_id)


def begun_segments(tx: Tx, run_id: str) -> list[Any]:
    """The segments of a run that have begun, in order."""
    return tx.all(_SEGMENTS, of_run_id=run_id)


def events_after(tx: Tx, segment_id: str, after_seq: int, limit: int) -> list[Any]:
    """Events of a segment in order."""
    return tx.all(_EVENTS, of_segment_id=segment_id, after_seq=after_seq, limit=limit)
