"""Conditions for reading a run's outputs: the first three checks of every outputs route. (contract 18.2)."""

from backend.errors import ApiError
from backend.runs.run_lookup import find_state, require_finished
from backend.storage.database import Tx
from workflow_api.v1 import errors_pb2


def require_open(tx: Tx, run_id: str, key_id: str | None) -> None:
    """Returns for a finished run whose outputs no sweep is pending for.

    Raises:
        ApiError: `run_not_found`, then `run_not_terminal`, then `redaction_pending`.
    """
    state = find_state(tx, run_id, key_id)
    require_finished(state)
    if state.redaction_state == "pending":
        raise ApiError(errors_pb2.ERROR_REASON_REDACTION_PENDING, metadata={"status": state.status})
