"""Calls of the services in a test: methods by name, metadata of every call, responses and refusals."""

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
        ValueError: there is none, or there are several.
    """
    found = [method for path, method in methods().items() if path.endswith((f"/{name}", f".{name}"))]
    if len(found) != 1:
        several = ", ".join(f"{method.containing_service.name}/{method.name}" for method in found)
        raise ValueError(f"{name!r} names no RPC." if not found else f"{name!r} names several RPCs: {several}.")
    return found[0]


class _Metadata(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):
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
    return grpc.intercept_channel(channel, _Metadata(metadata)) if metadata else channel


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


def response_of(rpc: Any) -> Any:
    """Returns the answer of a unary RPC, once it has ended.

    Raises:
        RefusedError: it was refused.
    """
    response, *ending = rpc.termination()
    _raise_refusal(*ending)
    return response


def responses_of(rpc: Any) -> list[Any]:
    """Returns the messages of a streaming RPC that nobody took yet, once it has ended.

    Raises:
        RefusedError: it was refused.
    """
    _raise_refusal(*rpc.termination())
    responses: list[Message] = []
    while True:
        try:
            responses.append(rpc.take_response())
        except ValueError:
            # What grpc_testing raises where an RPC has ended and every message was taken.
            return responses


def _raise_refusal(trailers: Any, code: grpc.StatusCode | None, details: str) -> None:
    if code not in {None, grpc.StatusCode.OK}:
        assert code is not None
        raise RefusedError(read_refusal(trailers or (), code, details))
