"""SQL of the transitions of a run: segments, events, approvals, cancellation, and the close."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Integer,
    bindparam,
    case,
    exists,
    func,
    insert,
    literal_column,
    or_,
    select,
    update,
)

from backend.common.states import (
    APPROVAL_SETTLED,
    RUN_IN_FLIGHT,
    RUN_TERMINAL,
    STEP_UNFINISHED,
    ApprovalState,
    RunStatus,
    SegmentState,
    StepStatus,
    run_statuses_before,
)
from backend.services.runs.promotion_sql import OUTPUTS_COUNT
from backend.storage.database import Tx
from backend.storage.statements import Command, Query, RowInsert, ScalarQuery, select_row
from backend.storage.tables.deployment import workers
from backend.storage.tables.runs import runs, status_in
from backend.storage.tables.segments import ApprovalRow, EventRow, approvals, events, segments, steps
from backend.storage.tables.webhooks import webhooks


class OpenSegmentRow(NamedTuple):
    """A segment that has not ended."""

    segment_id: str
    state: str


class BegunSegmentRow(NamedTuple):
    """A segment that this statement has set running."""

    run_id: str
    ordinal: int


class RaisedSegmentRow(NamedTuple):
    """A running segment: its last seq, raised by the new events, and its run."""

    last_seq: int
    run_id: str


class ClosedRunRow(NamedTuple):
    """A run that this statement has closed; `has_webhooks` and `has_children` are 0 or 1."""

    workflow_id: str
    workflow_name: str
    key_id: str
    created_at: int
    has_webhooks: int
    has_children: int


class ChildInFlightRow(NamedTuple):
    """A child that has not ended."""

    run_id: str
    key_id: str
    status: str


class RunOfSegmentRow(NamedTuple):
    """The run of a segment, and when its cancellation was requested."""

    run_id: str
    key_id: str
    workflow_id: str
    cancel_requested_at: int | None


def _may_become(status: str) -> ColumnElement[bool]:
    """Returns the condition on `runs` that the run may move to `status`."""
    return status_in(*run_statuses_before(status))


_RUN: BindParameter[str] = bindparam("of_run_id")
_SEGMENT: BindParameter[str] = bindparam("of_segment_id")
_AT: BindParameter[int] = bindparam("at_ms")
_NEW_OWNER: BindParameter[str] = bindparam("new_owner")
_ONE: ColumnElement[int] = literal_column("1")
_ZERO: ColumnElement[int] = literal_column("0")

_RAISE_LAST_SEQ = Query(
    RaisedSegmentRow,
    update(segments)
    .where(segments.c.segment_id == _SEGMENT, segments.c.state == SegmentState.RUNNING)
    .values(last_seq=segments.c.last_seq + bindparam("count"))
    .returning(segments.c.last_seq, segments.c.run_id),
)
ADD_EVENT = RowInsert(EventRow, events)
_OPEN_SEGMENTS = Query(
    OpenSegmentRow,
    select_row(OpenSegmentRow, segments)
    .where(segments.c.run_id == _RUN, segments.c.state != SegmentState.ENDED)
    .order_by(segments.c.ordinal),
)
_ADD_SEGMENT = Command(
    insert(segments).values(
        segment_id=_SEGMENT,
        run_id=_RUN,
        ordinal=select(func.coalesce(func.max(segments.c.ordinal), _ZERO) + _ONE)
        .where(segments.c.run_id == _RUN)
        .scalar_subquery(),
        state=SegmentState.QUEUED,
        created_at=_AT,
        last_seq=_ZERO,
    )
)
_BEGUN: Final = (segments.c.run_id, segments.c.ordinal)
_TAKE_SEGMENT = Query(
    BegunSegmentRow,
    update(segments)
    .where(
        segments.c.segment_id == _SEGMENT,
        segments.c.state == SegmentState.QUEUED,
        exists().where(runs.c.run_id == segments.c.run_id, _may_become(RunStatus.RUNNING)),
        or_(bindparam("leased", type_=Integer) == _ZERO, exists().where(workers.c.owner == _NEW_OWNER)),
    )
    .values(state=SegmentState.RUNNING, owner=_NEW_OWNER, started_at=_AT)
    .returning(*_BEGUN),
)
_REQUEUE_SEGMENT = Command(
    update(segments)
    .where(segments.c.segment_id == _SEGMENT, segments.c.state == SegmentState.QUEUED)
    .values(handed_over_at=None)
)
_SET_RUNNING = Command(
    update(runs)
    .where(
        runs.c.run_id == select(segments.c.run_id).where(segments.c.segment_id == _SEGMENT).scalar_subquery(),
        _may_become(RunStatus.RUNNING),
    )
    .values(status=RunStatus.RUNNING, started_at=func.coalesce(runs.c.started_at, _AT))
)
# A second request leaves the time and the reason of the first.
_REQUEST_CANCEL = Command(
    update(runs)
    .where(runs.c.run_id == _RUN)
    .values(
        cancel_requested_at=func.coalesce(runs.c.cancel_requested_at, _AT),
        cancel_reason=func.coalesce(runs.c.cancel_reason, bindparam("new_reason")),
    )
)
_SET_WAITING = Command(
    update(runs).where(runs.c.run_id == _RUN, _may_become(RunStatus.WAITING)).values(status=RunStatus.WAITING)
)
_OWNS = ScalarQuery[str](
    select(segments.c.segment_id).where(
        segments.c.segment_id == _SEGMENT,
        segments.c.state == SegmentState.RUNNING,
        segments.c.owner == bindparam("by_owner"),
    ),
)
_RUN_OF_SEGMENT = Query(
    RunOfSegmentRow,
    select_row(RunOfSegmentRow, runs)
    .join(segments, segments.c.run_id == runs.c.run_id)
    .where(segments.c.segment_id == _SEGMENT),
)
_HAS_BEGUN = ScalarQuery[str](select(runs.c.run_id).where(runs.c.run_id == _RUN, runs.c.started_at.is_not(None)))
_START_CLOSING_SEGMENT = Query(
    BegunSegmentRow,
    update(segments)
    .where(segments.c.segment_id == _SEGMENT)
    .values(state=SegmentState.RUNNING, started_at=_AT)
    .returning(*_BEGUN),
)
_END_SEGMENT = Command(
    update(segments).where(segments.c.segment_id == _SEGMENT).values(state=SegmentState.ENDED, ended_at=_AT)
)
# A segment that never began gets no end time.
_END_SEGMENTS = Command(
    update(segments)
    .where(segments.c.run_id == _RUN, segments.c.state != SegmentState.ENDED)
    .values(state=SegmentState.ENDED, ended_at=case((segments.c.started_at.is_not(None), _AT)))
)

ADD_APPROVAL = Command(
    insert(approvals),
    [
        "approval_id",
        "run_id",
        "segment_id",
        "step",
        "title",
        "instructions",
        "state",
        "requested_at",
        "summary",
        "deadline_at",
        "on_deadline",
        "remind_at",
        "approvers",
        "form_schema",
        "tool_call",
    ],
)
_SETTLED = (
    approvals.c.run_id == _RUN,
    approvals.c.state.in_([literal_column(f"'{state}'") for state in APPROVAL_SETTLED]),
)
_TO_CONTINUE = ScalarQuery[str](select(approvals.c.approval_id).where(*_SETTLED, approvals.c.continued_in.is_(None)))
_CONTINUE = Command(
    update(approvals).where(*_SETTLED, approvals.c.continued_in.is_(None)).values(continued_in=_SEGMENT)
)
_UNRECORDED_DECISIONS = Query(
    ApprovalRow,
    select_row(ApprovalRow, approvals)
    .where(
        approvals.c.continued_in == _SEGMENT,
        approvals.c.run_id == _RUN,
        ~exists().where(
            events.c.segment_id == _SEGMENT,
            events.c.type.in_([literal_column(f"'{name}'") for name in ("approval.decided", "approval.expired")]),
        ),
    )
    .order_by(approvals.c.decided_at),
)
_WITHDRAW = Command(
    update(approvals)
    .where(approvals.c.run_id == _RUN, approvals.c.state == ApprovalState.PENDING)
    .values(state=ApprovalState.WITHDRAWN, decided_at=_AT)
)

_NO_APPROVALS = Command(update(runs).where(runs.c.run_id == _RUN).values(approvals_pending=_ZERO))
_IS_PENDING = steps.c.status == literal_column(f"'{StepStatus.PENDING}'")
_HAS_LAST_STEPS = ScalarQuery[str](
    select(steps.c.step).where(steps.c.run_id == _RUN, steps.c.phase.is_not(None), _IS_PENDING).limit(1)
)


def _cancel(statuses: Iterable[StepStatus]) -> Command:
    return Command(
        update(steps)
        .where(steps.c.run_id == _RUN, steps.c.status.in_([literal_column(f"'{status}'") for status in statuses]))
        .values(status=StepStatus.CANCELLED, finished_at=case((steps.c.started_at.is_not(None), _AT)), paused=None)
    )


_CANCEL_STEPS: Final = _cancel(STEP_UNFINISHED)
_CANCEL_WAITING_STEPS: Final = _cancel([StepStatus.WAITING])

_CLOSING_COLUMNS: Final = (
    "finished_at",
    "error_code",
    "error_message",
    "warnings",
    "result",
    "result_output_id",
    "result_size_bytes",
    "result_sha256",
    "result_error_code",
    "result_error_message",
    "summary_markdown",
)
# Read with the close, so that runs of keys without webhooks need no further statement.
_HAS_WEBHOOKS = exists().where(webhooks.c.key_id == runs.c.key_id)
_CHILDREN = runs.alias("children")
# By parameter: SQLite's RETURNING names no table, so `runs.run_id` would be ambiguous here.
_HAS_CHILDREN = exists().where(
    _CHILDREN.c.parent_run_id == _RUN,
    _CHILDREN.c.status.in_([literal_column(f"'{status}'") for status in RUN_IN_FLIGHT]),
)
_CHILDREN_IN_FLIGHT = Query(
    ChildInFlightRow,
    select_row(ChildInFlightRow, runs)
    .where(runs.c.parent_run_id == _RUN, status_in(*RUN_IN_FLIGHT))
    .order_by(runs.c.created_at, runs.c.run_id),
)
_CLOSE: Final[Mapping[str, Query[ClosedRunRow]]] = {
    status: Query(
        ClosedRunRow,
        update(runs)
        .where(runs.c.run_id == _RUN, _may_become(status))
        .values(
            {name: bindparam(f"new_{name}") for name in _CLOSING_COLUMNS}
            | {
                "status": status,
                # Null leaves the present warnings.
                "warnings": func.coalesce(bindparam("new_warnings"), runs.c.warnings),
                "approvals_pending": _ZERO,
                "outputs_count": OUTPUTS_COUNT,
            }
        )
        .returning(
            *(runs.c[name] for name in ClosedRunRow._fields if name in runs.c),
            case((_HAS_WEBHOOKS, _ONE), else_=_ZERO).label("has_webhooks"),
            case((_HAS_CHILDREN, _ONE), else_=_ZERO).label("has_children"),
        ),
    )
    for status in RUN_TERMINAL
}
_WARNINGS = ScalarQuery[str](select(runs.c.warnings).where(runs.c.run_id == _RUN))
_UNSWEPT = ScalarQuery[str](select(runs.c.run_id).where(runs.c.run_id == _RUN, runs.c.redaction_state == "pending"))


def raise_last_seq(tx: Tx, segment_id: str, count: int) -> RaisedSegmentRow | None:
    """Raises a running segment's last seq and returns it; None when the segment does not run."""
    return tx.first(_RAISE_LAST_SEQ, of_segment_id=segment_id, count=count)


def add_events(tx: Tx, rows: Sequence[EventRow]) -> None:
    """Writes event rows, which have their seqs."""
    tx.insert(ADD_EVENT, rows)


def open_segments(tx: Tx, run_id: str) -> list[OpenSegmentRow]:
    """Returns the run's segments that have not ended, in order."""
    return tx.all(_OPEN_SEGMENTS, of_run_id=run_id)


def add_segment(tx: Tx, segment_id: str, run_id: str, at: int) -> None:
    """Writes a queued segment with the run's next ordinal."""
    tx.enqueue(_ADD_SEGMENT, of_segment_id=segment_id, of_run_id=run_id, at_ms=at)


def take_segment(tx: Tx, segment_id: str, owner: str, at: int, *, leased: bool) -> BegunSegmentRow | None:
    """Sets a queued segment running; None if it is not queued, its run has ended, or a `leased` owner has no lease."""
    return tx.first(_TAKE_SEGMENT, of_segment_id=segment_id, new_owner=owner, at_ms=at, leased=int(leased))


def requeue_segment(tx: Tx, segment_id: str) -> None:
    """Marks a queued segment as not dispatched."""
    tx.enqueue(_REQUEUE_SEGMENT, of_segment_id=segment_id)


def set_running(tx: Tx, segment_id: str, at: int) -> None:
    """Sets the run of a segment running, and its time of start with its first segment."""
    tx.enqueue(_SET_RUNNING, of_segment_id=segment_id, at_ms=at)


def request_cancel(tx: Tx, run_id: str, at: int, reason: str | None) -> None:
    """Writes when the cancellation of a run was requested, and why."""
    tx.enqueue(_REQUEST_CANCEL, of_run_id=run_id, at_ms=at, new_reason=reason)


def set_waiting(tx: Tx, run_id: str) -> None:
    """Sets a running run waiting for an approval."""
    tx.enqueue(_SET_WAITING, of_run_id=run_id)


def owns(tx: Tx, segment_id: str, owner: str) -> bool:
    """Returns whether this owner runs the segment."""
    return tx.exists(_OWNS, of_segment_id=segment_id, by_owner=owner)


def run_of_segment(tx: Tx, segment_id: str) -> RunOfSegmentRow | None:
    """Returns the run of a segment, and when its cancellation was requested."""
    return tx.first(_RUN_OF_SEGMENT, of_segment_id=segment_id)


def has_begun(tx: Tx, run_id: str) -> bool:
    """Returns whether a segment of the run ever began."""
    return tx.exists(_HAS_BEGUN, of_run_id=run_id)


def start_closing_segment(tx: Tx, segment_id: str, at: int) -> BegunSegmentRow:
    """Sets a segment running without an owner, to hold events of a run that no process executes."""
    return tx.one(_START_CLOSING_SEGMENT, of_segment_id=segment_id, at_ms=at)


def end_segment(tx: Tx, segment_id: str, at: int) -> None:
    """Ends one segment."""
    tx.enqueue(_END_SEGMENT, of_segment_id=segment_id, at_ms=at)


def end_segments(tx: Tx, run_id: str, at: int) -> None:
    """Ends every open segment of a run."""
    tx.enqueue(_END_SEGMENTS, of_run_id=run_id, at_ms=at)


def add_approvals(tx: Tx, rows: Iterable[Mapping[str, object]]) -> None:
    """Writes approvals that wait for a person."""
    tx.many(ADD_APPROVAL, rows)


def has_decisions_to_continue(tx: Tx, run_id: str) -> bool:
    """Returns whether a settled approval has no continuing segment yet."""
    return tx.exists(_TO_CONTINUE, of_run_id=run_id)


def continue_decisions(tx: Tx, run_id: str, segment_id: str) -> None:
    """Assigns the settled approvals without a continuing segment to this one."""
    tx.enqueue(_CONTINUE, of_run_id=run_id, of_segment_id=segment_id)


def unrecorded_decisions(tx: Tx, run_id: str, segment_id: str) -> list[ApprovalRow]:
    """Returns the settled approvals that a segment continues from, unless its events record them already."""
    return tx.all(_UNRECORDED_DECISIONS, of_run_id=run_id, of_segment_id=segment_id)


def warnings_of(tx: Tx, run_id: str) -> str:
    """Returns the warnings of a run as JSON text."""
    return tx.scalar_one(_WARNINGS, of_run_id=run_id)


def close(tx: Tx, run_id: str, status: str, **columns: object) -> ClosedRunRow | None:
    """Sets a run's final status and its closing columns; None when it cannot move to that status."""
    return tx.first(_CLOSE[status], of_run_id=run_id, **{f"new_{name}": value for name, value in columns.items()})


def children_in_flight(tx: Tx, run_id: str) -> list[ChildInFlightRow]:
    """Returns the children of a run that have not ended, in the order of their starts."""
    return tx.all(_CHILDREN_IN_FLIGHT, of_run_id=run_id)


def withdraw_approvals(tx: Tx, run_id: str, at: int) -> None:
    """Withdraws the approvals that still wait for a person."""
    tx.enqueue(_WITHDRAW, of_run_id=run_id, at_ms=at)


def end_waiting(tx: Tx, run_id: str, at: int) -> None:
    """Withdraws the pending approvals of a run before its last steps, and cancels the waiting steps."""
    withdraw_approvals(tx, run_id, at)
    tx.enqueue(_CANCEL_WAITING_STEPS, of_run_id=run_id, at_ms=at)
    tx.enqueue(_NO_APPROVALS, of_run_id=run_id)


def has_last_steps(tx: Tx, run_id: str) -> bool:
    """Returns whether steps of `on_failure` or `always` are still to run."""
    return tx.exists(_HAS_LAST_STEPS, of_run_id=run_id)


def cancel_steps(tx: Tx, run_id: str, at: int) -> None:
    """Cancels every step that has not finished."""
    tx.enqueue(_CANCEL_STEPS, of_run_id=run_id, at_ms=at)


def is_unswept(tx: Tx, run_id: str) -> bool:
    """Returns whether the final sweep of the run's outputs for personal data is still to come."""
    return tx.exists(_UNSWEPT, of_run_id=run_id)
