"""SQL of scheduling: segments that wait to be launched, runs that must end, and leases of processes."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    bindparam,
    delete,
    exists,
    func,
    insert,
    literal_column,
    or_,
    select,
    update,
)

from backend.common.states import DISPATCHED, ROOM, RUN_IN_FLIGHT, RunStatus, SegmentState
from backend.storage.database import Tx
from backend.storage.statements import Command, Query, ScalarQuery, select_row
from backend.storage.tables.deployment import workers
from backend.storage.tables.keys import api_keys
from backend.storage.tables.runs import runs, status_in
from backend.storage.tables.segments import segments


class WaitingSegmentRow(NamedTuple):
    """A segment that waits to be dispatched.

    `hand_overs` counts its dispatches so far, `depth` the ancestors of its run; `rank` is its place, from 1, among the
    waiting segments of its key and depth; `priority` is of its key, None if no key started the run.
    """

    segment_id: str
    created_at: int
    hand_overs: int
    key_id: str
    depth: int
    rank: int
    priority: str | None


class TakenRow(NamedTuple):
    """Number of segments of a key, at a depth, that are dispatched or running."""

    key_id: str
    depth: int
    taken: int


class OpenSegmentRow(NamedTuple):
    """An open segment, with the columns of its run that decide whether it must end."""

    segment_id: str
    owner: str | None
    run_id: str
    started_at: int | None
    max_run_hours: float | None
    cancel_requested_at: int | None
    depth: int


class StopReasonRow(NamedTuple):
    """The columns of a run that decide whether it must end."""

    started_at: int | None
    max_run_hours: float | None
    cancel_requested_at: int | None


class QueuedSegmentRow(NamedTuple):
    """A queued segment of a run; `handed_over_at` is the time of its dispatch, None while no engine has it."""

    run_id: str
    segment_id: str
    handed_over_at: int | None


class OverdueRunRow(NamedTuple):
    """A parked run that must end, because it has reached its time limit or its cancel was requested."""

    run_id: str
    max_run_hours: float | None
    cancel_requested_at: int | None


_NOW: Final[BindParameter[int]] = bindparam("now")
_BEFORE: Final[BindParameter[int]] = bindparam("before")
_HOUR_MS: Final[ColumnElement[int]] = literal_column("3600000")
# Literals, not parameters, so that the partial index of open segments can be used.
_OPEN: Final[ColumnElement[bool]] = segments.c.state != literal_column(f"'{SegmentState.ENDED}'")
_SEGMENT: Final[ColumnElement[bool]] = segments.c.segment_id == bindparam("of_segment_id")
_QUEUED: Final[ColumnElement[bool]] = segments.c.state == literal_column(f"'{SegmentState.QUEUED}'")
_RUNNING: Final[ColumnElement[bool]] = segments.c.state == literal_column(f"'{SegmentState.RUNNING}'")

_RANKED = (
    select(
        segments.c.segment_id,
        segments.c.created_at,
        segments.c.hand_overs,
        runs.c.key_id,
        runs.c.depth,
        func.row_number()
        .over(partition_by=(runs.c.key_id, runs.c.depth), order_by=(segments.c.created_at, segments.c.segment_id))
        .label("rank"),
    )
    .join(runs, runs.c.run_id == segments.c.run_id)
    .where(_OPEN, _QUEUED, segments.c.handed_over_at.is_(None))
    .subquery()
)
_WAITING = Query(
    WaitingSegmentRow,
    select(_RANKED, api_keys.c.priority)
    .outerjoin(api_keys, api_keys.c.key_id == _RANKED.c.key_id)
    .where(_RANKED.c.rank <= bindparam("max_of_a_key")),
)
_TAKEN = Query(
    TakenRow,
    select_row(TakenRow, runs, taken=func.count())
    .join(segments, segments.c.run_id == runs.c.run_id)
    .where(_OPEN, or_(_RUNNING, segments.c.handed_over_at.is_not(None)))
    .group_by(runs.c.key_id, runs.c.depth),
)
_MARK_DISPATCHED = Command(
    update(segments)
    .where(_SEGMENT, _QUEUED, segments.c.hand_overs == bindparam("before"))
    .values(handed_over_at=_NOW, hand_overs=bindparam("number"))
)
_REQUEUE = Command(
    update(segments)
    .where(_SEGMENT, _QUEUED, segments.c.handed_over_at == bindparam("seen"))
    .values(handed_over_at=None)
)
_REQUEUE_ALL = Command(update(segments).where(_OPEN, _QUEUED).values(handed_over_at=None))

_RUNNING_SEGMENTS = Query(
    OpenSegmentRow,
    select_row(OpenSegmentRow, runs, segments).join(runs, runs.c.run_id == segments.c.run_id).where(_OPEN, _RUNNING),
)
_QUEUED_SEGMENT = Query(
    OpenSegmentRow,
    select_row(OpenSegmentRow, runs, segments).join(runs, runs.c.run_id == segments.c.run_id).where(_SEGMENT, _QUEUED),
)
_STOP_REASON = Query(StopReasonRow, select_row(StopReasonRow, runs).where(runs.c.run_id == bindparam("of_run_id")))
_NOT_BEGUN = Query(
    QueuedSegmentRow,
    select_row(QueuedSegmentRow, segments).where(
        _OPEN, _QUEUED, or_(segments.c.handed_over_at.is_not(None), segments.c.hand_overs > literal_column("0"))
    ),
)
_QUEUED_BEFORE = Query(
    QueuedSegmentRow, select_row(QueuedSegmentRow, segments).where(_OPEN, _QUEUED, segments.c.created_at < _BEFORE)
)
# A run that waits for an approval has no running segment; after the decision it has a queued one.
_OVERDUE = Query(
    OverdueRunRow,
    select_row(OverdueRunRow, runs).where(
        status_in(*RUN_IN_FLIGHT),
        status_in(RunStatus.WAITING),
        or_(
            runs.c.started_at + runs.c.max_run_hours * _HOUR_MS <= _NOW,
            # Its parent ended in the moment in which it parked.
            runs.c.cancel_requested_at.is_not(None),
        ),
        ~exists().where(segments.c.run_id == runs.c.run_id, _RUNNING),
    ),
)
_OPEN_IDS = ScalarQuery[str](select(segments.c.segment_id).where(_OPEN))
_IN_FLIGHT_IDS = ScalarQuery[str](select(runs.c.run_id).where(status_in(*RUN_IN_FLIGHT)))


def waiting(tx: Tx, max_of_a_key: int) -> list[WaitingSegmentRow]:
    """Returns the segments that wait to be dispatched, at most `max_of_a_key` of each key at each depth."""
    return tx.all(_WAITING, max_of_a_key=max_of_a_key)


def taken_by_depth(tx: Tx) -> dict[int, dict[str, int]]:
    """Returns the numbers of dispatched and running segments, by depth and key."""
    taken: dict[int, dict[str, int]] = {}
    for row in tx.all(_TAKEN):
        taken.setdefault(row.depth, {})[row.key_id] = row.taken
    return taken


def mark_dispatched(tx: Tx, segments: Iterable[WaitingSegmentRow], now: int) -> None:
    """Marks queued segments as dispatched once more, and wakes the workers."""
    tx.keeps_caches_valid = True
    tx.announce(DISPATCHED)
    tx.many(
        _MARK_DISPATCHED,
        [
            {"of_segment_id": row.segment_id, "now": now, "before": row.hand_overs, "number": row.hand_overs + 1}
            for row in segments
        ],
    )


def requeue(tx: Tx, queued: QueuedSegmentRow) -> None:
    """Marks a segment as not dispatched, unless it was dispatched again since it was read; wakes launchers."""
    tx.keeps_caches_valid = True
    tx.announce(ROOM)
    tx.enqueue(_REQUEUE, of_segment_id=queued.segment_id, seen=queued.handed_over_at)


def requeue_all(tx: Tx) -> None:
    """Marks every queued segment as not dispatched, after the engine that had the segments is gone."""
    tx.enqueue(_REQUEUE_ALL)


def running(tx: Tx) -> list[OpenSegmentRow]:
    """Returns every running segment, segments of parent runs before segments of their children."""
    return sorted(tx.all(_RUNNING_SEGMENTS), key=lambda row: row.depth)


def stop_reason_of(tx: Tx, run_id: str) -> StopReasonRow:
    """Returns the columns of a run that decide whether it must end."""
    return tx.one(_STOP_REASON, of_run_id=run_id)


def not_begun(tx: Tx) -> list[QueuedSegmentRow]:
    """Returns the queued segments that are dispatched, or were before they were requeued."""
    return tx.all(_NOT_BEGUN)


def queued_before(tx: Tx, before: int) -> list[QueuedSegmentRow]:
    """Returns the queued segments that were created before a time."""
    return tx.all(_QUEUED_BEFORE, before=before)


def queued(tx: Tx, segment_id: str) -> OpenSegmentRow | None:
    """Returns a segment that has not begun yet; None where it has."""
    return tx.first(_QUEUED_SEGMENT, of_segment_id=segment_id)


def overdue_parked_runs(tx: Tx, now: int) -> list[OverdueRunRow]:
    """Returns the parked runs that have reached their time limit, or whose cancel was requested."""
    return tx.all(_OVERDUE, now=now)


def open_ids(tx: Tx) -> set[str]:
    """Returns the ids of all segments that have not ended."""
    return set(tx.scalars(_OPEN_IDS))


def in_flight(tx: Tx) -> set[str]:
    """Returns the ids of all runs that have not finished."""
    return set(tx.scalars(_IN_FLIGHT_IDS))


LEASE_MS: Final = 20_000


class LeaseRow(NamedTuple):
    """The lease of a process, the host that it runs on, and the segments that it could take when it last renewed."""

    owner: str
    host: str
    lease_until: int
    draining: int
    room: int

    def lapsed(self, now: int) -> bool:
        """Returns whether the lease was not renewed in time, or was written by a clock that was ahead."""
        return not now < self.lease_until <= now + LEASE_MS


_OWNER: Final = workers.c.owner == bindparam("of_owner")
_ADD = Command(insert(workers), [column.name for column in workers.columns])
_RENEW = Command(
    update(workers)
    .where(_OWNER)
    .values(lease_until=bindparam("until"), draining=bindparam("new_draining"), room=bindparam("new_room"))
)
_REMOVE = Command(delete(workers).where(_OWNER))
_REMOVE_LAPSED = Command(delete(workers).where(_OWNER, workers.c.lease_until == bindparam("not_renewed")))
_SLOTS = ScalarQuery[int](
    select(func.coalesce(func.sum(workers.c.step_slots), literal_column("0"))).where(
        workers.c.lease_until > bindparam("now"), workers.c.draining == literal_column("0")
    ),
)
_LEASES = Query(LeaseRow, select_row(LeaseRow, workers))


def lease_lock_key(owner: str) -> str:
    """Returns the lock key of one lease."""
    return f"worker {owner}"


def add_lease(tx: Tx, *, owner: str, host: str, step_slots: int, now: int, until: int) -> None:
    """Writes a new process with its first lease."""
    times = {"started_at": now, "lease_until": until}
    tx.enqueue(_ADD, owner=owner, host=host, step_slots=step_slots, draining=0, room=step_slots, **times)


def renew_lease(tx: Tx, owner: str, until: int, *, draining: bool, room: int) -> bool:
    """Renews a lease; False if it is gone, as another process has removed it."""
    return tx.run(_RENEW, of_owner=owner, until=until, new_draining=int(draining), new_room=room) == 1


def remove_lease(tx: Tx, owner: str) -> None:
    """Removes a lease."""
    tx.enqueue(_REMOVE, of_owner=owner)


def remove_lapsed_lease(tx: Tx, lease: LeaseRow) -> bool:
    """Removes a lease that was not renewed in time; False, with nothing changed, if it was renewed meanwhile."""
    return tx.run(_REMOVE_LAPSED, of_owner=lease.owner, not_renewed=lease.lease_until) == 1


def leases(tx: Tx) -> list[LeaseRow]:
    """Returns every lease, also one that was not renewed in time and was not removed yet."""
    return tx.all(_LEASES)


def total_step_slots(tx: Tx, now: int) -> int:
    """Returns how many steps can run at once on all processes that take new segments."""
    return int(tx.scalar_one(_SLOTS, now=now))
