"""Rules of outputs: refusals of reads that are not allowed yet or too large, and the bytes that a range selects."""

from dataclasses import dataclass
from typing import Final

from backend.common.errors import ApiError
from backend.services.outputs.sql import TotalRow
from backend.services.runs.reads import find_state, require_finished
from backend.storage.database import Tx
from backend.storage.tables.files import OutputRow
from workflow_api.v1 import errors_pb2, outputs_pb2

MAX_OUTPUT_BYTES: Final = 25_000_000
MAX_BUNDLE_FILES: Final = 2_000
MAX_BUNDLE_BYTES: Final = 500_000_000


def require_open(tx: Tx, run_id: str, key_id: str | None) -> None:
    """Refuses a run that has not finished, or whose outputs wait for their sweep.

    Raises:
        ApiError: `run_not_found`, then `run_not_terminal`, then `redaction_pending`.
    """
    state = find_state(tx, run_id, key_id)
    require_finished(state)
    if state.redaction_state == "pending":
        raise ApiError(errors_pb2.ERROR_REASON_REDACTION_PENDING, metadata={"status": state.status})


def require_content(row: OutputRow) -> None:
    """Refuses an output that is too large to be served as one file, whatever the range (contract 18.10).

    Raises:
        ApiError: `use_bundle`.
    """
    if row.size_bytes > MAX_OUTPUT_BYTES:
        raise ApiError(errors_pb2.ERROR_REASON_USE_BUNDLE, metadata={"run_id": row.run_id})


def require_bundle(total: TotalRow) -> None:
    """Refuses outputs that are too many or too large for one zip (contract 18.15).

    Raises:
        ApiError: `bundle_too_large`.
    """
    if total.files > MAX_BUNDLE_FILES or total.size_bytes > MAX_BUNDLE_BYTES:
        raise ApiError(errors_pb2.ERROR_REASON_BUNDLE_TOO_LARGE)


DownloadRequest = outputs_pb2.GetOutputContentRequest | outputs_pb2.GetOutputsZipRequest


@dataclass(frozen=True, slots=True)
class Selection:
    """Bytes to send: `length` at `offset`; `partial` if they answer a range, `not_modified` if the caller has them."""

    offset: int
    length: int
    partial: bool = False
    not_modified: bool = False


def select_bytes(request: DownloadRequest, size: int, etag: str) -> Selection:
    """Evaluates a request's conditions, then its range, which a stale `If-Range` makes void.

    Raises:
        ApiError: `range_not_satisfiable`, when no byte of the file is in the range.
    """
    if any(tag in {"*", etag} for tag in request.if_none_match):
        return Selection(0, 0, not_modified=True)
    stale = request.HasField("if_range") and request.if_range != etag
    if not request.HasField("range") or stale:
        return Selection(0, size)
    return _resolve(request.range, size)


def _resolve(asked: outputs_pb2.ByteRange, size: int) -> Selection:
    if asked.HasField("suffix_length"):
        if asked.suffix_length and not size:
            # Satisfiable (RFC 9110, section 14.1.2), but no Content-Range can express a range of no bytes.
            return Selection(0, size)
        first, last = max(0, size - asked.suffix_length), size - 1
    else:
        first, last = asked.first, size - 1
        if asked.HasField("last"):
            if asked.last < first:
                # No valid range, so the header is ignored.
                return Selection(0, size)
            last = min(asked.last, last)
    if first > last:
        raise ApiError(errors_pb2.ERROR_REASON_RANGE_NOT_SATISFIABLE, metadata={"size": str(size)})
    return Selection(first, last - first + 1, partial=True)
