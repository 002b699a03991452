"""Which runs a caller can see, and what is left of one whose data was erased."""

from typing import Any

from backend.errors import ApiError
from backend.run_status import TERMINAL
from backend.runs import sql
from backend.storage.database import Tx
from workflow_api.v1 import errors_pb2


def find_run(tx: Tx, run_id: str, key_id: str | None) -> Any:
    """A run in full.

    Raises:
        ApiError: `run_not_found`; absent and out of reach are the same.
    """
    return _found(sql.run(tx, run_id, key_id))


def find_state(tx: Tx, run_id: str, key_id: str | None) -> Any:
    """Where a run stands; raises as `find_run`."""
    return _found(sql.run_state(tx, run_id, key_id))


def find_logged(tx: Tx, run_id: str, key_id: str | None) -> Any:
    """Where a run stands whose board and event log still exist.

    Raises:
        ApiError: `run_not_found`, or `not_found` once the run's data was erased.
    """
    state = find_state(tx, run_id, key_id)
    if state.data_purged_at is not None:
        raise ApiError(errors_pb2.ERROR_REASON_NOT_FOUND, "The run's data has been erased.")
    return state


def require_finished(run: Any) -> None:
    """Raises ApiError `run_not_terminal`, with the status, of a run that goes on."""
    if run.status not in TERMINAL:
        raise ApiError(errors_pb2.ERROR_REASON_RUN_NOT_TERMINAL, metadata={"status": run.status})


def _found(row: Any) -> Any:
    if row is None:
        raise ApiError(errors_pb2.ERROR_REASON_RUN_NOT_FOUND)
    return row
