"""Finds runs within a caller's access."""

from typing import TypeVar

from backend.errors import ApiError
from backend.run_status import TERMINAL
from backend.runs import sql
from backend.storage.database import Tx
from backend.storage.tables.runs import RunRow
from workflow_api.v1 import errors_pb2

T = TypeVar("T")


def find_run(tx: Tx, run_id: str, key_id: str | None) -> RunRow:
    """Returns a run in full.

    Raises:
        ApiError: `run_not_found`, both for a run that does not exist and for one of another key.
    """
    return _found(sql.run(tx, run_id, key_id), run_id, key_id)


def find_state(tx: Tx, run_id: str, key_id: str | None) -> sql.RunStateRow:
    """Returns the state of a run; raises as `find_run`."""
    return _found(sql.run_state(tx, run_id, key_id), run_id, key_id)


def find_logged(tx: Tx, run_id: str, key_id: str | None) -> sql.RunStateRow:
    """Returns the state of a run whose steps and events still exist.

    Raises:
        ApiError: `run_not_found`, or `not_found` once the run's data was erased.
    """
    state = find_state(tx, run_id, key_id)
    if state.data_purged_at is not None:
        raise ApiError(errors_pb2.ERROR_REASON_NOT_FOUND, "The run's data has been erased.")
    return state


def require_finished(run: RunRow | sql.RunStateRow) -> None:
    """Raises ApiError `run_not_terminal`, with the status, where the run has not finished."""
    if run.status not in TERMINAL:
        raise ApiError(errors_pb2.ERROR_REASON_RUN_NOT_TERMINAL, metadata={"status": run.status})


def no_such_run(run_id: str, key_id: str | None) -> ApiError:
    """Returns `run_not_found`, which names the run to people inside; to keys the message is the contract's."""
    return ApiError(errors_pb2.ERROR_REASON_RUN_NOT_FOUND, None if key_id else f"There is no run {run_id}.")


def _found(row: T | None, run_id: str, key_id: str | None) -> T:
    if row is None:
        raise no_such_run(run_id, key_id)
    return row
