"""Translates failed gRPC calls into failures of a command."""

import grpc
from grpc_status import rpc_status

from contract.refusals import refusal_from_status
from deploy.failures import CommandError, late, unreachable


def failure_of(error: grpc.RpcError, address: str, request_id: str, *, secure: bool = False) -> CommandError:
    """Returns the failure for a call of the backend at `address` that was made with this request id.

    Over TLS the message quotes gRPC, which distinguishes a certificate that does not fit from a backend that is down.
    """
    try:
        status = rpc_status.from_call(error)
    except ValueError:
        status = None
    if status is None and error.code() is grpc.StatusCode.UNAVAILABLE:
        return unreachable(address, error.details() or "" if secure else "")
    if status is None and error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return late(address)
    if status is None and "message larger than max" in (error.details() or ""):
        return CommandError(
            f"The call of {address}, or its answer, is larger than one message may be: {error.details()}",
            code="invalid_request",
            request_id=request_id,
        )
    if status is None:
        return CommandError(
            f"The backend answered {error.code().name}: {error.details()}", code="runtime_error", request_id=request_id
        )
    refusal = refusal_from_status(status)
    return CommandError(refusal.message, code=refusal.code, details=refusal.details, request_id=request_id)
