"""When a run's outputs can be read, and how large a download may be (contract 18.2, 18.10, 18.15)."""

from typing import Final

from backend.errors import ApiError
from backend.outputs.sql import TotalRow
from backend.runs.run_lookup import find_state, require_finished
from backend.storage.database import Tx
from backend.storage.tables.outputs import OutputRow
from workflow_api.v1 import errors_pb2

MAX_OUTPUT_BYTES: Final = 25_000_000
MAX_BUNDLE_FILES: Final = 2_000
MAX_BUNDLE_BYTES: Final = 500_000_000


def require_open(tx: Tx, run_id: str, key_id: str | None) -> None:
    """Returns for a finished run whose outputs no sweep is pending for.

    Raises:
        ApiError: `run_not_found`, then `run_not_terminal`, then `redaction_pending`.
    """
    state = find_state(tx, run_id, key_id)
    require_finished(state)
    if state.redaction_state == "pending":
        raise ApiError(errors_pb2.ERROR_REASON_REDACTION_PENDING, metadata={"status": state.status})


def require_content(row: OutputRow) -> None:
    """Returns for an output that is served as one file; the file counts, not the range asked for (contract 18.10).

    Raises:
        ApiError: `use_bundle`.
    """
    if row.size_bytes > MAX_OUTPUT_BYTES:
        raise ApiError(errors_pb2.ERROR_REASON_USE_BUNDLE, metadata={"run_id": row.run_id})


def require_bundle(total: TotalRow) -> None:
    """Returns for outputs that are served as one zip (contract 18.15).

    Raises:
        ApiError: `bundle_too_large`.
    """
    if total.files > MAX_BUNDLE_FILES or total.size_bytes > MAX_BUNDLE_BYTES:
        raise ApiError(errors_pb2.ERROR_REASON_BUNDLE_TOO_LARGE)
