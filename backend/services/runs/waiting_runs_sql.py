"""SQL that counts runs which wait for a process, by workflow and key, and runs that began lately."""

from typing import Final, NamedTuple

from sqlalchemy import ColumnElement, bindparam, func, literal_column, select

from backend.common.states import RUN_IN_FLIGHT, RunStatus, SegmentState
from backend.services.runs.backlog_sql import MAX_COUNTED
from backend.storage.database import Tx
from backend.storage.statements import Query, ScalarQuery, select_row
from backend.storage.tables.keys import api_keys
from backend.storage.tables.runs import runs, status_in
from backend.storage.tables.segments import segments

MOST_ENDED: Final = 1_000
"""Most ended runs from which the rate of begun ones is taken."""


class WaitingRow(NamedTuple):
    """Queued segments of a workflow, a key and a depth of child runs; of them `handed_over` are with the engine."""

    workflow_id: str
    workflow_name: str
    key_id: str
    key_name: str | None
    priority: str | None
    depth: int
    queued: int
    handed_over: int
    oldest_at: int


class RunningRow(NamedTuple):
    """Number of running segments of a key, without those of child runs."""

    key_id: str
    running: int


class EndedRow(NamedTuple):
    """When a run began, None if it did not, and when it ended."""

    started_at: int | None
    finished_at: int


# Literals, so that the partial index of open segments can be used.
_OPEN: Final = segments.c.state != literal_column(f"'{SegmentState.ENDED}'")
_NO_CHILD: Final = runs.c.depth == literal_column("0")
_MOST: Final[ColumnElement[int]] = literal_column(str(MAX_COUNTED))
_OF_RUN: Final = (runs.c.workflow_id, runs.c.workflow_name, runs.c.key_id, runs.c.depth)
_OLDEST: Final = (
    select(segments.c.run_id, segments.c.created_at, segments.c.handed_over_at)
    .where(_OPEN, segments.c.state == literal_column(f"'{SegmentState.QUEUED}'"))
    .order_by(segments.c.created_at)
    .limit(_MOST)
    .subquery()
)
_COUNTED: Final = (
    select(
        *_OF_RUN,
        func.count().label("queued"),
        func.count(_OLDEST.c.handed_over_at).label("handed_over"),
        func.min(_OLDEST.c.created_at).label("oldest_at"),
    )
    .select_from(_OLDEST)
    .join(runs, runs.c.run_id == _OLDEST.c.run_id)
    .group_by(*_OF_RUN)
    .subquery()
)
_WAITING = Query(
    WaitingRow,
    select_row(WaitingRow, _COUNTED, key_name=api_keys.c.name, priority=api_keys.c.priority)
    .select_from(_COUNTED)
    .outerjoin(api_keys, api_keys.c.key_id == _COUNTED.c.key_id),
)
_RUNNING = Query(
    RunningRow,
    select_row(RunningRow, runs, running=func.count())
    .join(segments, segments.c.run_id == runs.c.run_id)
    .where(_OPEN, segments.c.state == literal_column(f"'{SegmentState.RUNNING}'"), _NO_CHILD)
    .group_by(runs.c.key_id),
)
_BEGUN: Final = (
    select(literal_column("1"))
    .select_from(runs)
    .where(
        status_in(*RUN_IN_FLIGHT),
        status_in(RunStatus.RUNNING, RunStatus.WAITING),
        runs.c.started_at >= bindparam("since"),
        _NO_CHILD,
    )
    .limit(_MOST)
    .subquery()
)
_BEGUN_IN_FLIGHT = ScalarQuery[int](select(func.count()).select_from(_BEGUN))
_ENDED = Query(
    EndedRow,
    select_row(EndedRow, runs)
    .where(runs.c.finished_at >= bindparam("since"), runs.c.finished_at.is_not(None), _NO_CHILD)
    .order_by(runs.c.finished_at.desc())
    .limit(literal_column(str(MOST_ENDED))),
)


def waiting_rows(tx: Tx) -> list[WaitingRow]:
    """Counts queued segments, the oldest `MAX_COUNTED`, by workflow, key and depth."""
    return tx.all(_WAITING)


def running_by_key(tx: Tx) -> dict[str, int]:
    """Counts running segments by key, without those of child runs."""
    return {row.key_id: row.running for row in tx.all(_RUNNING)}


def begun_in_flight(tx: Tx, since: int) -> int:
    """Counts the runs in flight that began since a time, without child runs."""
    return tx.scalar_one(_BEGUN_IN_FLIGHT, since=since)


def newest_ended(tx: Tx, since: int) -> list[EndedRow]:
    """Returns the runs that ended since a time, the newest `MOST_ENDED`, newest first, without child runs."""
    return tx.all(_ENDED, since=since)
