"""What a refused call says: the reason and its data, read from the google.rpc.Status that comes with it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import grpc
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

M = TypeVar("M", bound=Message)

STATUS_TRAILER: Final = "grpc-status-details-bin"
"""The trailer that holds the google.rpc.Status of a refusal."""


@dataclass(frozen=True)
class Refusal:
    """Why a call was refused.

    Attributes:
        reason: The name of the `ErrorReason` without its prefix, as `RUN_NOT_FOUND`; empty where the answer is not of
            the service's making, as at a deadline.
        code: The status code.
        message: For a person.
        metadata: The data of the reason.
        fields: What is wrong, by the field of the request, as the `BadRequest` says.
        preconditions: What keeps a workflow from running, as the `PreconditionFailure` says.
        retry_after: Seconds until another try makes sense, as the `RetryInfo` says; None where it says nothing.
    """

    reason: str
    code: grpc.StatusCode
    message: str
    metadata: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)
    preconditions: tuple[str, ...] = ()
    retry_after: int | None = None


class RefusedError(Exception):
    """A call through `backend.server` that was refused; `refusal` says why."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        super().__init__(f"{refusal.code.name} {refusal.reason}: {refusal.message}")


def refusal_of(error: grpc.RpcError) -> Refusal:
    """Returns why a stub's call was refused."""
    # Whatever a stub raises is the call, too.
    call: Any = error
    return read_refusal(call.trailing_metadata() or (), call.code(), call.details() or "")


def read_refusal(trailers: Iterable[tuple[str, Any]], code: grpc.StatusCode, details: str) -> Refusal:
    """Returns what trailers, status code and message of an ended call say."""
    packed = dict(trailers).get(STATUS_TRAILER)
    status = status_pb2.Status() if packed is None else status_pb2.Status.FromString(packed)
    info = _unpacked(status, error_details_pb2.ErrorInfo())
    bad = _unpacked(status, error_details_pb2.BadRequest())
    failure = _unpacked(status, error_details_pb2.PreconditionFailure())
    retry = _unpacked(status, error_details_pb2.RetryInfo())
    return Refusal(
        reason=info.reason,
        code=code,
        message=details,
        metadata=dict(info.metadata),
        fields={violation.field: violation.description for violation in bad.field_violations},
        preconditions=tuple(violation.description for violation in failure.violations),
        retry_after=retry.retry_delay.seconds if retry.HasField("retry_delay") else None,
    )


def _unpacked(status: status_pb2.Status, empty: M) -> M:
    for detail in status.details:
        if detail.Unpack(empty):
            break
    return empty
