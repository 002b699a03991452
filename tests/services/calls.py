"""Calls a servicer as grpc would, by grpcio-testing, through the wrapper that production uses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import grpc
import grpc_testing
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from backend.rpc.interceptors import handlers_of
from contract.metadata import ACTOR, KEY_ID, STATUS_TRAILER
from workflow_api.v1 import errors_pb2, options_pb2
from workflow_api_testing import TestBackend, responses_of
from workflow_api_testing.calls import services

_DETAILS: tuple[type[Message], ...] = (
    error_details_pb2.ErrorInfo,
    error_details_pb2.BadRequest,
    error_details_pb2.PreconditionFailure,
    error_details_pb2.RetryInfo,
)

# What no method declares: a key that is gone, a fault, and a database or a store that is away.
_OF_EVERY_METHOD = (
    errors_pb2.ERROR_REASON_UNAUTHORIZED,
    errors_pb2.ERROR_REASON_INTERNAL,
    errors_pb2.ERROR_REASON_RUNTIME_UNREACHABLE,
)


@dataclass(eq=False)
class RefusedError(Exception):
    """A refused call: its reason and details as they were on the wire."""

    reason: str
    message: str
    code: grpc.StatusCode
    metadata: Mapping[str, str] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    retry_after: int | None = None


class Caller:
    """Calls a service, and others beside it; a refused call raises `RefusedError`."""

    def __init__(self, servicer: object, service: ServiceDescriptor, *others: tuple[object, ServiceDescriptor]) -> None:
        services = [(servicer, service), *others]
        self.methods = {method.name: method for _, each in services for method in each.methods}
        self.server = grpc_testing.server_from_dictionary(
            {each: _wrapped(its_servicer, each) for its_servicer, each in services}, grpc_testing.strict_real_time()
        )

    @classmethod
    def of_backend(cls, backend: TestBackend) -> "Caller":
        """Returns what calls every service of a backend."""
        caller = cls.__new__(cls)
        caller.methods = {method.name: method for service in services() for method in service.methods}
        caller.server = backend.server
        return caller

    def __call__(self, method: str, request: Message, key_id: str | None = None, actor: str = "tester") -> Any:
        return self.with_metadata(method, request, [(ACTOR, actor)] + ([(KEY_ID, key_id)] if key_id else []))

    def with_metadata(self, method: str, request: Message, metadata: Sequence[tuple[str, str]]) -> Any:
        """Returns the answer to a call with exactly this metadata."""
        descriptor = self.methods[method]
        rpc = self.server.invoke_unary_unary(descriptor, metadata, request, None)
        response, trailers, code, details = rpc.termination()
        if code not in {None, grpc.StatusCode.OK}:
            raise _refused(descriptor, dict(trailers), code, details)
        return response

    def stream(self, method: str, request: Message, key_id: str | None = None) -> "Stream":
        metadata = [(KEY_ID, key_id)] if key_id else []
        descriptor = self.methods[method]
        return Stream(self.server.invoke_unary_stream(descriptor, metadata, request, None), descriptor)


def _wrapped(servicer: object, service: ServiceDescriptor) -> SimpleNamespace:
    handlers = handlers_of(servicer, service)
    return SimpleNamespace(
        **{
            path.rpartition("/")[2]: handler.messages if handler.streaming else handler.answer
            for path, handler in handlers.items()
        }
    )


class Stream:
    """An open server stream."""

    def __init__(self, rpc: Any, descriptor: MethodDescriptor) -> None:
        self._rpc = rpc
        self._descriptor = descriptor

    def take(self) -> Any:
        """The next message."""
        return self._rpc.take_response()

    def cancel(self) -> None:
        """Ends the call from the caller's side."""
        self._rpc.cancel()

    def rest(self) -> list[Any]:
        """Every message until the end; a refusal raises `RefusedError`."""
        trailers, code, details = self._rpc.termination()
        if code not in {None, grpc.StatusCode.OK}:
            raise _refused(self._descriptor, dict(trailers), code, details)
        return responses_of(self._rpc)


def _refused(
    method: MethodDescriptor, trailers: Mapping[str, bytes], code: grpc.StatusCode, details: str
) -> RefusedError:
    """What was refused; a reason that neither the method nor every method declares fails the test."""
    status = status_pb2.Status.FromString(trailers[STATUS_TRAILER])
    unpacked: dict[type[Message], Any] = {}
    for kind in _DETAILS:
        for packed in status.details:
            if packed.TypeName() == kind.DESCRIPTOR.full_name:
                unpacked[kind] = kind.FromString(packed.value)
    info = unpacked[error_details_pb2.ErrorInfo]
    bad = unpacked.get(error_details_pb2.BadRequest)
    failure = unpacked.get(error_details_pb2.PreconditionFailure)
    retry = unpacked.get(error_details_pb2.RetryInfo)
    assert status.message == details
    declared = method.GetOptions().Extensions[options_pb2.method_rules].errors
    assert errors_pb2.ErrorReason.Value(f"ERROR_REASON_{info.reason}") in {*declared, *_OF_EVERY_METHOD}, (
        f"{method.full_name} refused with {info.reason}, which it does not declare"
    )
    return RefusedError(
        reason=info.reason.lower(),
        message=status.message,
        code=code,
        metadata=dict(info.metadata),
        problems={each.field: each.description for each in bad.field_violations} if bad else {},
        reasons=tuple(each.description for each in failure.violations) if failure else (),
        retry_after=retry.retry_delay.seconds if retry else None,
    )
