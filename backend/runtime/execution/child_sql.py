"""SQL of a parent that waits for a child: how the child stands, its result, and its cancellation."""

from typing import NamedTuple

from sqlalchemy import bindparam, select

from backend.common.states import RUN_IN_FLIGHT
from backend.services.runs.lifecycle import cancel_child
from backend.storage.database import Tx
from backend.storage.statements import Query, ScalarQuery, select_row
from backend.storage.tables.runs import runs, status_in


class ChildRow(NamedTuple):
    """A child as its parent's step sees it."""

    run_id: str
    key_id: str
    status: str
    error_code: str | None
    error_message: str | None
    result: str | None
    result_error_code: str | None
    result_output_id: str | None
    data_purged_at: int | None
    redaction_state: str


_CHILD = Query(ChildRow, select_row(ChildRow, runs).where(runs.c.run_id == bindparam("of_run_id")))
_STATUS_IN_FLIGHT = ScalarQuery[str](
    select(runs.c.status).where(runs.c.run_id == bindparam("of_run_id"), status_in(*RUN_IN_FLIGHT))
)


def child(tx: Tx, run_id: str) -> ChildRow:
    """Returns a child that exists."""
    return tx.one(_CHILD, of_run_id=run_id)


def cancel(tx: Tx, run_id: str, at: int) -> None:
    """Cancels a child that was started and has not ended."""
    status = tx.scalar(_STATUS_IN_FLIGHT, of_run_id=run_id)
    if status is not None:
        cancel_child(tx, run_id, status, at)
