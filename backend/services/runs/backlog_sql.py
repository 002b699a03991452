"""SQL that counts pending work in the whole deployment, up to `MAX_COUNTED` of each kind."""

from typing import Final, NamedTuple

from sqlalchemy import ColumnElement, ScalarSelect, Select, Table, bindparam, func, literal_column, select

from backend.common.states import RUN_IN_FLIGHT, ApprovalState, SegmentState
from backend.storage.database import Tx
from backend.storage.statements import Query
from backend.storage.tables.deployment import workers
from backend.storage.tables.files import OPEN_STATES, pending_deletions, pending_removals, publications, state_in
from backend.storage.tables.runs import runs, status_in
from backend.storage.tables.segments import approvals, segments
from backend.storage.tables.webhooks import webhook_deliveries

MAX_COUNTED: Final = 10_000


class BacklogRow(NamedTuple):
    """Counts of pending work of the deployment by kind, as the metrics show them."""

    runs_queued: int
    runs_running: int
    runs_waiting_for_approval: int
    segments_waiting: int
    segments_handed_over: int
    oldest_queued_at: int | None
    approvals: int
    sweeps: int
    removals_of_runs: int
    removals_of_objects: int
    publications: int
    webhook_deliveries: int
    workers: int
    worker_slots: int


class RunsInFlightRow(NamedTuple):
    """Number of runs of a workflow and a key in one status."""

    workflow_id: str
    workflow_name: str
    key_id: str
    status: str
    number: int


_QUEUED: Final = (
    # Literal text, so that the planner can use the partial index over open segments.
    segments.c.state != literal_column(f"'{SegmentState.ENDED}'"),
    segments.c.state == literal_column(f"'{SegmentState.QUEUED}'"),
)
_LIVE: Final = workers.c.lease_until > bindparam("now")


def _count(table: Table, *where: ColumnElement[bool], index: str | None = None) -> ScalarSelect[int]:
    limit: ColumnElement[int] = literal_column(str(MAX_COUNTED))
    some: Select[int] = select(literal_column("1")).select_from(table).where(*where).limit(limit)
    if index is not None:
        some = some.with_hint(table, f"INDEXED BY {index}", "sqlite")
    return select(func.count()).select_from(some.subquery()).scalar_subquery()


_BACKLOG = Query(
    BacklogRow,
    select(
        *(
            _count(runs, status_in(*RUN_IN_FLIGHT), status_in(status)).label(f"runs_{status}")
            for status in RUN_IN_FLIGHT
        ),
        _count(segments, *_QUEUED, segments.c.handed_over_at.is_(None)).label("segments_waiting"),
        _count(segments, *_QUEUED, segments.c.handed_over_at.is_not(None)).label("segments_handed_over"),
        select(func.min(segments.c.created_at)).where(*_QUEUED).scalar_subquery().label("oldest_queued_at"),
        _count(approvals, approvals.c.state == literal_column(f"'{ApprovalState.PENDING}'")).label("approvals"),
        _count(
            runs,
            runs.c.redaction_state == literal_column("'pending'"),
            runs.c.finished_at.is_not(None),
            runs.c.data_purged_at.is_(None),
            index="ix_runs_unswept",
        ).label("sweeps"),
        _count(pending_removals).label("removals_of_runs"),
        _count(pending_deletions).label("removals_of_objects"),
        _count(
            publications,
            # The condition of the partial index.
            state_in(*OPEN_STATES),
            publications.c.state != literal_column("'landed'"),
        ).label("publications"),
        _count(webhook_deliveries, webhook_deliveries.c.state == literal_column("'pending'")).label(
            "webhook_deliveries"
        ),
        _count(workers, _LIVE).label("workers"),
        select(func.coalesce(func.sum(workers.c.step_slots), literal_column("0")))
        .where(_LIVE, workers.c.draining == literal_column("0"))
        .scalar_subquery()
        .label("worker_slots"),
    ),
)


_NAMED_RUN: Final = (runs.c.workflow_id, runs.c.workflow_name, runs.c.key_id, runs.c.status)
_IN_FLIGHT: Final = (
    select(*_NAMED_RUN).where(status_in(*RUN_IN_FLIGHT)).limit(literal_column(str(MAX_COUNTED))).subquery()
)
_RUNS_IN_FLIGHT = Query(
    RunsInFlightRow,
    select(*_IN_FLIGHT.c, func.count().label("number")).group_by(*_IN_FLIGHT.c),
)


def runs_in_flight(tx: Tx) -> list[RunsInFlightRow]:
    """Counts runs in flight by workflow, key and status."""
    return tx.all(_RUNS_IN_FLIGHT)


def backlog(tx: Tx, lease_now: int) -> BacklogRow:
    """Counts all kinds of work by one query; `lease_now` is the database's time, by which workers renew leases."""
    return tx.one(_BACKLOG, now=lease_now)
