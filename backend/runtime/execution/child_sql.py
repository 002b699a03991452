"""SQL that reads the status and the result of a child run for its waiting parent."""

from typing import NamedTuple

from sqlalchemy import bindparam

from backend.storage.database import Tx
from backend.storage.statements import Query, select_row
from backend.storage.tables.runs import runs


class ChildRow(NamedTuple):
    """Status, error and result of a child run."""

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
    """Returns the row of a child run, which must exist."""
    return tx.one(_CHILD, of_run_id=run_id)
