"""SQL of the launcher and the sweeper: which segments wait to be launched, and which runs must end."""

from collections.abc import Iterable
from typing import Any, Final

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    bindparam,
    exists,
    func,
    literal_column,
    or_,
    select,
    update,
)

from backend.run_status import IN_FLIGHT, RunStatus
from backend.segment_state import SegmentState
from backend.storage.database import Tx
from backend.storage.statements import prepare
from backend.storage.tables.runs import runs, segments, status_in

_NOW: Final[BindParameter[int]] = bindparam("now")
_BEFORE: Final[BindParameter[int]] = bindparam("before")
_HOUR_MS: Final[ColumnElement[int]] = literal_column("3600000")
# In the text, so that the partial index over open segments serves.
_OPEN: Final[ColumnElement[bool]] = segments.c.state != literal_column(f"'{SegmentState.ENDED}'")
_QUEUED: Final[ColumnElement[bool]] = segments.c.state == literal_column(f"'{SegmentState.QUEUED}'")
_RUNNING: Final[ColumnElement[bool]] = segments.c.state == literal_column(f"'{SegmentState.RUNNING}'")

_RANKED = (
    select(
        segments.c.segment_id,
        segments.c.created_at,
        runs.c.key_id,
        func.row_number()
        .over(partition_by=runs.c.key_id, order_by=(segments.c.created_at, segments.c.segment_id))
        .label("turn"),
    )
    .join(runs, runs.c.run_id == segments.c.run_id)
    .where(_OPEN, _QUEUED, segments.c.handed_over_at.is_(None))
    .subquery()
)
_WAITING = prepare(select(_RANKED).where(_RANKED.c.turn <= bindparam("most_of_a_key")))
_TAKEN = prepare(
    select(runs.c.key_id, func.count().label("taken"))
    .join(segments, segments.c.run_id == runs.c.run_id)
    .where(_OPEN, or_(_RUNNING, segments.c.handed_over_at.is_not(None)))
    .group_by(runs.c.key_id)
)
_HAND_OVER = prepare(
    update(segments).where(segments.c.segment_id == bindparam("of_segment_id"), _QUEUED).values(handed_over_at=_NOW)
)
_TAKE_BACK = prepare(update(segments).where(_OPEN, _QUEUED).values(handed_over_at=None))

_RUNNING_SEGMENTS = prepare(
    select(
        segments.c.segment_id,
        segments.c.owner,
        runs.c.run_id,
        runs.c.started_at,
        runs.c.max_run_hours,
        runs.c.cancel_requested_at,
    )
    .join(runs, runs.c.run_id == segments.c.run_id)
    .where(_OPEN, _RUNNING)
)
_NOT_LAUNCHED = prepare(
    select(segments.c.run_id, segments.c.segment_id).where(_OPEN, _QUEUED, segments.c.handed_over_at < _BEFORE)
)
_NOT_HANDED_OVER = prepare(
    select(segments.c.run_id, segments.c.segment_id).where(
        _OPEN, _QUEUED, segments.c.handed_over_at.is_(None), segments.c.created_at < _BEFORE
    )
)
_IS_QUEUED = prepare(select(segments.c.run_id).where(segments.c.segment_id == bindparam("of_segment_id"), _QUEUED))
# A parked run has no running segment; one whose approval was just granted has a queued one.
_OVERDUE = prepare(
    select(runs.c.run_id, runs.c.max_run_hours).where(
        status_in(*IN_FLIGHT),
        status_in(RunStatus.WAITING),
        runs.c.max_run_hours.is_not(None),
        runs.c.started_at + runs.c.max_run_hours * _HOUR_MS <= _NOW,
        ~exists().where(segments.c.run_id == runs.c.run_id, _RUNNING),
    )
)
_IN_FLIGHT_IDS = prepare(select(runs.c.run_id).where(status_in(*IN_FLIGHT)))


def waiting(tx: Tx, most_of_a_key: int) -> list[Any]:
    """Segments that wait to be handed over: id, created_at, key, and its turn among those of its key."""
    return tx.all(_WAITING, most_of_a_key=most_of_a_key)


def taken_by_key(tx: Tx) -> dict[str, int]:
    """How many segments of each key were handed over or run."""
    return {row.key_id: row.taken for row in tx.all(_TAKEN)}


def hand_over(tx: Tx, segment_ids: Iterable[str], now: int) -> None:
    """Marks queued segments as handed over to the engine."""
    tx.many(_HAND_OVER, [{"of_segment_id": segment_id, "now": now} for segment_id in segment_ids])


def take_back(tx: Tx) -> None:
    """Has every queued segment handed over again: the engine that had them is gone."""
    tx.enqueue(_TAKE_BACK)


def running(tx: Tx) -> list[Any]:
    """Every running segment, with what says whether its run should end."""
    return tx.all(_RUNNING_SEGMENTS)


def not_launched(tx: Tx, handed_over_before: int) -> list[Any]:
    """Segments that were handed over before that time and that nothing took up."""
    return tx.all(_NOT_LAUNCHED, before=handed_over_before)


def not_handed_over(tx: Tx, queued_before: int) -> list[Any]:
    """Segments that have waited since before that time to be handed over."""
    return tx.all(_NOT_HANDED_OVER, before=queued_before)


def is_queued(tx: Tx, segment_id: str) -> bool:
    """Whether nothing has taken the segment up yet."""
    return tx.one(_IS_QUEUED, of_segment_id=segment_id) is not None


def parked_past_limit(tx: Tx, now: int) -> list[Any]:
    """Runs that wait for an approval and have reached their time limit."""
    return tx.all(_OVERDUE, now=now)


def in_flight(tx: Tx) -> set[str]:
    """Every run that has not finished."""
    return {row.run_id for row in tx.all(_IN_FLIGHT_IDS)}
