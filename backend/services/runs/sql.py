"""SQL that reads runs with their steps, approvals, segments, events and starters."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Final, NamedTuple

from sqlalchemy import BigInteger, ColumnElement, bindparam, func, literal_column, select

from backend.common.states import ApprovalState
from backend.storage.database import Tx
from backend.storage.statements import Query, ScalarQuery, select_row
from backend.storage.tables.deployment import audit_records
from backend.storage.tables.keys import api_keys
from backend.storage.tables.runs import RunRow, runs
from backend.storage.tables.segments import (
    ApprovalRow,
    EventRow,
    SegmentRow,
    StepRow,
    approvals,
    events,
    segments,
    steps,
)


class DeciderRow(NamedTuple):
    """An approval, and the person who decided it."""

    approval_id: str
    decided_by: str


class RunStateRow(NamedTuple):
    """The columns of a run that decide whether its steps, events and outputs may be read."""

    run_id: str
    key_id: str
    status: str
    cancel_requested_at: int | None
    data_purged_at: int | None
    redaction_state: str


RUNS_AT_ONCE: Final = 100
_RUN_IDS: Final = [f"run_id_{number}" for number in range(RUNS_AT_ONCE)]
_OF_RUN: Final = runs.c.run_id == bindparam("of_run_id")
_OF_KEY: Final = runs.c.key_id == bindparam("of_key_id")

_ANY_RUN = Query(RunRow, select_row(RunRow, runs).where(_OF_RUN))
_RUN_OF_KEY = Query(RunRow, select_row(RunRow, runs).where(_OF_RUN, _OF_KEY))
_RUNS = Query(RunRow, select_row(RunRow, runs).where(runs.c.run_id.in_([bindparam(name) for name in _RUN_IDS])))
_STATE = select_row(RunStateRow, runs).where(_OF_RUN)
_ANY_STATE = Query(RunStateRow, _STATE)
_STATE_OF_KEY = Query(RunStateRow, _STATE.where(_OF_KEY))
_STEPS = Query(
    StepRow, select_row(StepRow, steps).where(steps.c.run_id == bindparam("of_run_id")).order_by(steps.c.position)
)
_PENDING_APPROVALS = Query(
    ApprovalRow,
    select_row(ApprovalRow, approvals)
    .where(approvals.c.run_id == bindparam("of_run_id"), approvals.c.state == ApprovalState.PENDING)
    .order_by(approvals.c.requested_at, approvals.c.approval_id),
)
_DECIDERS = Query(
    DeciderRow,
    select_row(DeciderRow, approvals).where(
        approvals.c.run_id == bindparam("of_run_id"), approvals.c.decided_by.is_not(None)
    ),
)
_SEGMENTS = Query(
    SegmentRow,
    select_row(SegmentRow, segments)
    .where(segments.c.run_id == bindparam("of_run_id"), segments.c.started_at.is_not(None))
    .order_by(segments.c.ordinal),
)
_EVENT_TYPES: Final = [f"type_{number}" for number in range(20)]
_AFTER: Final = (
    events.c.segment_id == bindparam("of_segment_id"),
    events.c.seq > bindparam("after_seq", type_=BigInteger),
)
_OF_TYPES: Final = events.c.type.in_([bindparam(name) for name in _EVENT_TYPES])
_OF_STEP: Final = events.c.step == bindparam("of_step")


def _events_query(*where: ColumnElement[bool]) -> Query[EventRow]:
    return Query(
        EventRow, select_row(EventRow, events).where(*_AFTER, *where).order_by(events.c.seq).limit(bindparam("limit"))
    )


_EVENTS = _events_query()
_EVENTS_OF_TYPES = _events_query(_OF_TYPES)
_EVENTS_OF_STEP = _events_query(_OF_STEP)
_EVENTS_OF_BOTH = _events_query(_OF_TYPES, _OF_STEP)


def run(tx: Tx, run_id: str, key_id: str | None) -> RunRow | None:
    """Returns a run in full, or None; only a run of the key, unless `key_id` is None."""
    if key_id is None:
        return tx.first(_ANY_RUN, of_run_id=run_id)
    return tx.first(_RUN_OF_KEY, of_run_id=run_id, of_key_id=key_id)


def runs_in_full(tx: Tx, run_ids: Sequence[str]) -> list[RunRow]:
    """Returns the existing runs of up to `RUNS_AT_ONCE` ids, in full and unordered."""
    if not run_ids:
        return []
    return tx.all(_RUNS, **dict(zip_longest(_RUN_IDS, run_ids, fillvalue=run_ids[0])))


def run_state(tx: Tx, run_id: str, key_id: str | None) -> RunStateRow | None:
    """Returns the state of a run, found as by `run`."""
    if key_id is None:
        return tx.first(_ANY_STATE, of_run_id=run_id)
    return tx.first(_STATE_OF_KEY, of_run_id=run_id, of_key_id=key_id)


def steps_of(tx: Tx, run_id: str) -> list[StepRow]:
    """Returns the steps of a run in the order of its definition."""
    return tx.all(_STEPS, of_run_id=run_id)


def pending_approvals(tx: Tx, run_id: str) -> list[ApprovalRow]:
    """Returns the approvals that a run waits for, oldest first."""
    return tx.all(_PENDING_APPROVALS, of_run_id=run_id)


def deciders(tx: Tx, run_id: str) -> dict[str, str]:
    """Returns the persons who decided approvals of a run, by approval id."""
    return dict(tx.all(_DECIDERS, of_run_id=run_id))


def begun_segments(tx: Tx, run_id: str) -> list[SegmentRow]:
    """Returns the segments of a run that have begun, in order."""
    return tx.all(_SEGMENTS, of_run_id=run_id)


def events_after(tx: Tx, segment_id: str, after_seq: int, limit: int) -> list[EventRow]:
    """Returns up to `limit` events of a segment after a seq, in order."""
    return tx.all(_EVENTS, of_segment_id=segment_id, after_seq=after_seq, limit=limit)


def filtered_events_after(
    tx: Tx, segment_id: str, after_seq: int, limit: int, types: Sequence[str], step: str
) -> list[EventRow]:
    """Returns events as `events_after`, of up to 20 types and of one step; empty values mean any."""
    params: dict[str, object] = {"of_segment_id": segment_id, "after_seq": after_seq, "limit": limit}
    if types:
        params |= dict(zip_longest(_EVENT_TYPES, types, fillvalue=types[0]))
    if not step:
        return tx.all(_EVENTS_OF_TYPES if types else _EVENTS, **params)
    return tx.all(_EVENTS_OF_BOTH if types else _EVENTS_OF_STEP, **params, of_step=step)


# Subqueries, not joins: each costs one search of an index for each listed run.
STARTED_BY: Final[ColumnElement[str | None]] = func.coalesce(
    select(api_keys.c.name).where(api_keys.c.key_id == runs.c.key_id).correlate(runs).scalar_subquery(),
    select(audit_records.c.actor)
    .where(audit_records.c.target == runs.c.run_id, audit_records.c.action == literal_column("'run.started'"))
    .limit(literal_column("1"))
    .correlate(runs)
    .scalar_subquery(),
)
"""Name of the key or person that started a run; null once the key was deleted or the audit record has expired."""

_STARTER_OF_RUN: Final[ScalarQuery[str | None]] = ScalarQuery(
    select(STARTED_BY.label("started_by")).select_from(runs).where(runs.c.run_id == bindparam("of_run_id"))
)


def started_by(tx: Tx, run_id: str) -> str | None:
    """Returns the key or person that started a run, or None if it is no longer known."""
    return tx.scalar(_STARTER_OF_RUN, of_run_id=run_id)
