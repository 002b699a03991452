"""Helpers for gRPC calls in tests: methods by name, metadata of calls, responses and refusals."""

import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import grpc
from google.protobuf.descriptor import FileDescriptor, MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

import workflow_api.v1

M = TypeVar("M", bound=Message)

STATUS_TRAILER: Final = "grpc-status-details-bin"
"""The trailer that holds the google.rpc.Status of a refusal."""


@functools.cache
def services() -> tuple[ServiceDescriptor, ...]:
    """Returns every service, by the modules of the generated package."""
    names = [module.name for module in pkgutil.iter_modules(workflow_api.v1.__path__) if module.name.endswith("_pb2")]
    files: list[FileDescriptor] = [
        importlib.import_module(f"{workflow_api.v1.__name__}.{name}").DESCRIPTOR for name in sorted(names)
    ]
    return tuple(service for file in files for service in file.services_by_name.values())


@functools.cache
def methods() -> dict[str, MethodDescriptor]:
    """Returns every RPC by its name on the wire, as `/workflow_api.v1.RunsService/GetRun`."""
    return {f"/{service.full_name}/{method.name}": method for service in services() for method in service.methods}


def method_named(name: str) -> MethodDescriptor:
    """Returns the RPC of a name as `GetRun` or `RunsService/GetRun`.

    Raises:
        ValueError: no RPC, or several, have the name.
    """
    found = [method for path, method in methods().items() if path.endswith((f"/{name}", f".{name}"))]
    if len(found) != 1:
        several = ", ".join(f"{method.containing_service.name}/{method.name}" for method in found)
        raise ValueError(f"{name!r} names no RPC." if not found else f"{name!r} names several RPCs: {several}.")
    return found[0]


class _MetadataInterceptor(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):
    """Adds metadata to each call of a channel."""

    def __init__(self, metadata: Mapping[str, str]) -> None:
        self._metadata = tuple(metadata.items())

    def intercept_unary_unary(self, continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        return continuation(self._extended(details), request)

    def intercept_unary_stream(self, continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        return continuation(self._extended(details), request)

    def _extended(self, details: Any) -> Any:
        return details._replace(metadata=(*(details.metadata or ()), *self._metadata))


def with_metadata(channel: grpc.Channel, metadata: Mapping[str, str]) -> grpc.Channel:
    """Returns the channel with this metadata in each call."""
    return grpc.intercept_channel(channel, _MetadataInterceptor(metadata)) if metadata else channel


@dataclass(frozen=True)
class Refusal:
    """Refusal of a call.

    Attributes:
        reason: Name of the `ErrorReason` without its prefix, as `RUN_NOT_FOUND`; empty where the service gave no
            answer, as at a deadline.
        code: The status code.
        message: Text for people.
        metadata: The data of the reason.
        fields: Problems by field of the request, from the `BadRequest`.
        preconditions: Reasons why a workflow cannot run, from the `PreconditionFailure`.
        retry_after: Seconds until the next try, from the `RetryInfo`; None without one.
    """

    reason: str
    code: grpc.StatusCode
    message: str
    metadata: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)
    preconditions: tuple[str, ...] = ()
    retry_after: int | None = None


class RefusedError(Exception):
    """Raised for a refused call through `backend.server`, with its `refusal`."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        super().__init__(f"{refusal.code.name} {refusal.reason}: {refusal.message}")


def refusal_of(error: grpc.RpcError) -> Refusal:
    """Returns the refusal in a stub's error."""
    # The error that a stub raises is the call as well.
    call: Any = error
    return read_refusal(call.trailing_metadata() or (), call.code(), call.details() or "")


def read_refusal(trailers: Iterable[tuple[str, Any]], code: grpc.StatusCode, details: str) -> Refusal:
    """Returns the refusal in trailers, status code and message of an ended call."""
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


def response_of(rpc: Any) -> Any:
    """Returns the answer of a unary RPC, once it has ended.

    Raises:
        RefusedError: it was refused.
    """
    response, *ending = rpc.termination()
    _raise_refusal(*ending)
    return response


def responses_of(rpc: Any) -> list[Any]:
    """Returns the messages of a streaming RPC that were not taken yet, once the RPC has ended.

    Raises:
        RefusedError: it was refused.
    """
    _raise_refusal(*rpc.termination())
    responses: list[Message] = []
    while True:
        try:
            responses.append(rpc.take_response())
        except ValueError:
            # Raised by grpc_testing once an RPC has ended and every message was taken.
            return responses


def _raise_refusal(trailers: Any, code: grpc.StatusCode | None, details: str) -> None:
    if code not in {None, grpc.StatusCode.OK}:
        assert code is not None
        raise RefusedError(read_refusal(trailers or (), code, details))
