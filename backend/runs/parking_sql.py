"""SQL that moves a queued run and its first segment to where they wait for an approval, each in one statement."""

from collections.abc import Iterable, Mapping
from typing import Final

from sqlalchemy import BindParameter, ColumnElement, bindparam, case, exists, func, insert, literal_column, update

from backend.run_status import RunStatus, before
from backend.segment_state import SegmentState
from backend.storage.database import Tx
from backend.storage.statements import Command, ScalarQuery
from backend.storage.tables.runs import runs, status_in
from backend.storage.tables.segments import approvals, segments
from backend.storage.tables.webhooks import webhooks

_SEGMENT: Final[BindParameter[str]] = bindparam("of_segment_id")
_AT: Final[BindParameter[int]] = bindparam("at_ms")
_MAY_BEGIN: Final = status_in(*before(RunStatus.RUNNING))
_HAS_WEBHOOKS: Final[ColumnElement[int]] = case(
    (exists().where(webhooks.c.key_id == runs.c.key_id), literal_column("1")), else_=literal_column("0")
)

_PASS = Command(
    update(segments)
    .where(
        segments.c.segment_id == _SEGMENT,
        segments.c.state == SegmentState.QUEUED,
        exists().where(runs.c.run_id == segments.c.run_id, _MAY_BEGIN),
    )
    .values(
        state=SegmentState.ENDED,
        owner=bindparam("new_owner"),
        started_at=_AT,
        ended_at=_AT,
        last_seq=segments.c.last_seq + bindparam("count"),
    )
)
_WAIT = ScalarQuery[int](
    update(runs)
    .where(runs.c.run_id == bindparam("of_run_id"), _MAY_BEGIN)
    .values(
        status=RunStatus.WAITING,
        started_at=func.coalesce(runs.c.started_at, _AT),
        approvals_pending=runs.c.approvals_pending + bindparam("more_approvals"),
    )
    .returning(_HAS_WEBHOOKS.label("has_webhooks"))
)
_ADD_APPROVAL = Command(
    insert(approvals),
    ["approval_id", "run_id", "segment_id", "step", "title", "instructions", "state", "requested_at"],
)


def pass_segment(tx: Tx, segment_id: str, owner: str, at: int, events: int) -> bool:
    """Ends a queued segment with so many events; False if it was not queued or its run cannot run."""
    return tx.run(_PASS, of_segment_id=segment_id, new_owner=owner, at_ms=at, count=events) == 1


def set_waiting(tx: Tx, run_id: str, at: int, approvals: int) -> bool:
    """Sets a run that may begin waiting for so many more approvals; returns whether its key has webhooks."""
    return tx.scalar_one(_WAIT, of_run_id=run_id, at_ms=at, more_approvals=approvals) == 1


def add_approvals(tx: Tx, rows: Iterable[Mapping[str, object]]) -> None:
    """Writes approvals that wait for a person."""
    tx.many(_ADD_APPROVAL, rows)
