"""Selection of the bytes of a download: an output or a zip (contract 18.11 to 18.13; RFC 9110)."""

from dataclasses import dataclass

from backend.errors import ApiError
from workflow_api.v1 import errors_pb2, outputs_pb2

DownloadRequest = outputs_pb2.GetOutputContentRequest | outputs_pb2.GetOutputsZipRequest


@dataclass(frozen=True, slots=True)
class Selection:
    """Selection: `length` at `offset`; `partial` when they answer a range, `not_modified` if the caller has them."""

    offset: int
    length: int
    partial: bool = False
    not_modified: bool = False


def select_bytes(request: DownloadRequest, size: int, etag: str) -> Selection:
    """Evaluates the conditions first, then the range, which a stale `If-Range` makes void.

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
                # Not a range at all, so it is ignored.
                return Selection(0, size)
            last = min(asked.last, last)
    if first > last:
        raise ApiError(errors_pb2.ERROR_REASON_RANGE_NOT_SATISFIABLE, metadata={"size": str(size)})
    return Selection(first, last - first + 1, partial=True)
