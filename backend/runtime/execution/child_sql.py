"""SQL of a parent that waits for a child: how the child stands, and its result."""

from typing import NamedTuple

from sqlalchemy import bindparam

from backend.storage.database import Tx
from backend.storage.statements import Query, select_row
from backend.storage.tables.runs import runs


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


def child(tx: Tx, run_id: str) -> ChildRow:
    """Returns a child that exists."""
    return tx.one(_CHILD, of_run_id=run_id)
