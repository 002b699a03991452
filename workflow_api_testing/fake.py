"""Fake servicers with scripted answers and recorded requests, for tests of callers of the services."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc import error_details_pb2, status_pb2

from workflow_api.v1 import errors_pb2, options_pb2
from workflow_api_testing.calls import STATUS_TRAILER, method_named, methods

Answer = Callable[[Any, grpc.ServicerContext], Any]

_DOMAIN: Final = "workflow-api"
_THREADS: Final = 8
_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}
# Reasons that every method may refuse with, in addition to those that it declares.
_OF_EVERY_METHOD: Final = (
    errors_pb2.ERROR_REASON_UNAUTHORIZED,
    errors_pb2.ERROR_REASON_INTERNAL,
    errors_pb2.ERROR_REASON_RUNTIME_UNREACHABLE,
)


@dataclass(frozen=True)
class RecordedCall:
    """A received call: the RPC as `RunsService/GetRun`, the request, and the metadata."""

    rpc: str
    request: Any
    metadata: Mapping[str, str]


class FakeBackend:
    """Every service, with answers that a test sets; an RPC without an answer returns UNIMPLEMENTED.

    The fake serves plain gRPC at `address`, on loopback, without checking requests. RPCs are named as `GetRun`, or
    `RunsService/GetRun` where several services have an RPC of the name.
    """

    def __init__(self) -> None:
        self._answers: dict[str, deque[Answer]] = {}
        self._calls: list[RecordedCall] = []
        self._lock = threading.Lock()
        self._server = grpc.server(ThreadPoolExecutor(_THREADS, thread_name_prefix="fake-backend"))
        self._server.add_generic_rpc_handlers((_Handlers(self._answer),))
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def __enter__(self) -> "FakeBackend":  # noqa: PYI034 - Python 3.10 has no Self
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def answer(self, rpc: str, *answers: Message | Sequence[Message]) -> None:
        """Sets the answers of an RPC, one for each call in order; the last one also answers all later calls.

        An answer of a streaming RPC is a sequence of messages.

        Raises:
            TypeError: an answer has another type than the RPC's.
            ValueError: the RPC does not exist, or no answer is given.
        """
        method = method_named(rpc)
        for answer in answers:
            _check_type(method, answer)
        self._set(method, [_answer_handler(answer) for answer in answers])

    def refuse(
        self,
        rpc: str,
        reason: errors_pb2.ErrorReason.ValueType,
        *,
        message: str | None = None,
        metadata: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
        retry_after: int | None = None,
        times: int | None = None,
    ) -> None:
        """Makes an RPC refuse every call, with status, message and details as the services do.

        Args:
            rpc: The RPC.
            reason: A reason that the RPC's proto declares, or that every RPC may refuse with.
            message: Text for people; by default the reason's own.
            metadata: The data of the reason.
            fields: Problems by field.
            retry_after: Seconds until the next try; by default the reason's own.
            times: Number of calls to refuse, after which the RPC answers as set before; None for all.

        Raises:
            ValueError: the RPC never refuses with this reason or does not exist, or the reason has no fields.
        """
        method = method_named(rpc)
        declared = method.GetOptions().Extensions[options_pb2.method_rules].errors
        if reason not in {*declared, *_OF_EVERY_METHOD}:
            raise ValueError(f"{rpc} never refuses with {_name(reason)}.")
        if fields and not _rules(reason).problem_list:
            raise ValueError(f"A refusal with {_name(reason)} has no fields.")
        status = _status(reason, message, metadata or {}, fields or {}, retry_after)

        def refused(_: Any, context: grpc.ServicerContext) -> Message:
            context.set_trailing_metadata(((STATUS_TRAILER, status.SerializeToString()),))
            return context.abort(_CODES[status.code], status.message)

        before = [] if times is None else [*self._answers.get(_short_name(method), [_no_answer(method)])]
        self._set(method, [refused] * (1 if times is None else times) + before)

    def handle(self, rpc: str, function: Answer) -> None:
        """Answers an RPC by a function, which takes the request and the grpc.ServicerContext, and may abort.

        An answer of another type than the RPC's is a failure of the call, with UNKNOWN, that names the type.
        """
        self._set(method_named(rpc), [function])

    def calls(self, rpc: str | None = None) -> list[RecordedCall]:
        """Returns the calls of an RPC, or all calls, in the order of their arrival."""
        name = None if rpc is None else _short_name(method_named(rpc))
        with self._lock:
            return [call for call in self._calls if name in {None, call.rpc}]

    def requests(self, rpc: str) -> list[Any]:
        """Returns the requests of an RPC, in the order of their arrival."""
        return [call.request for call in self.calls(rpc)]

    def close(self) -> None:
        """Ends every call and stops the server."""
        self._server.stop(None).wait()

    def _set(self, method: MethodDescriptor, answers: Iterable[Answer]) -> None:
        queue = deque(answers)
        if not queue:
            raise ValueError(f"{_short_name(method)} needs an answer.")
        with self._lock:
            self._answers[_short_name(method)] = queue

    def _answer(self, method: MethodDescriptor, request: Any, context: grpc.ServicerContext) -> Any:
        metadata: Any = context.invocation_metadata() or ()
        name = _short_name(method)
        with self._lock:
            self._calls.append(RecordedCall(name, request, dict(metadata)))
            queue = self._answers.get(name, deque([_no_answer(method)]))
            chosen = queue.popleft() if len(queue) > 1 else queue[0]
        answer = chosen(request, context)
        if method.server_streaming:
            return _checked(method, answer)
        _check_type(method, answer)
        return answer


class _Handlers(grpc.GenericRpcHandler):
    """Generic handler that passes every RPC to one function."""

    def __init__(self, answer: Callable[[MethodDescriptor, Any, grpc.ServicerContext], Any]) -> None:
        self._answer = answer

    def service(self, details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[Any, Any] | None":
        method = methods().get(str(details.method))
        if method is None:
            return None
        make = grpc.unary_stream_rpc_method_handler if method.server_streaming else grpc.unary_unary_rpc_method_handler
        return make(
            lambda request, context: self._answer(method, request, context),
            GetMessageClass(method.input_type).FromString,
            GetMessageClass(method.output_type).SerializeToString,
        )


def _short_name(method: MethodDescriptor) -> str:
    return f"{method.containing_service.name}/{method.name}"


def _no_answer(method: MethodDescriptor) -> Answer:
    message = f"The script has no answer to {_short_name(method)}."
    return lambda _, context: context.abort(grpc.StatusCode.UNIMPLEMENTED, message)


def _answer_handler(answer: Message | Sequence[Message]) -> Answer:
    return lambda *_: answer if isinstance(answer, Message) else iter(answer)


def _check_type(method: MethodDescriptor, answer: Message | Sequence[Message]) -> None:
    wanted = method.output_type.full_name
    messages = [answer] if isinstance(answer, Message) else answer
    if isinstance(answer, Message) == method.server_streaming or any(
        message.DESCRIPTOR.full_name != wanted for message in messages
    ):
        what = f"a sequence of {wanted}" if method.server_streaming else wanted
        raise TypeError(f"{_short_name(method)} returns {what}.")


def _checked(method: MethodDescriptor, answer: Iterable[Message]) -> Iterator[Message]:
    for message in answer:
        _check_type(method, [message])
        yield message


def _name(reason: int) -> str:
    known = errors_pb2.ErrorReason.DESCRIPTOR.values_by_number.get(reason)
    return f"the unknown reason {reason}" if known is None else str(known.name)


def _rules(reason: errors_pb2.ErrorReason.ValueType) -> errors_pb2.ErrorRules:
    return errors_pb2.ErrorReason.DESCRIPTOR.values_by_number[reason].GetOptions().Extensions[errors_pb2.error_rules]


def _status(
    reason: errors_pb2.ErrorReason.ValueType,
    message: str | None,
    metadata: Mapping[str, str],
    fields: Mapping[str, str],
    retry_after: int | None,
) -> status_pb2.Status:
    rules = _rules(reason)
    name = _name(reason).removeprefix("ERROR_REASON_")
    details: list[Message] = [error_details_pb2.ErrorInfo(reason=name, domain=_DOMAIN, metadata=metadata)]
    if fields:
        violation = error_details_pb2.BadRequest.FieldViolation
        violations = [violation(field=field, description=why) for field, why in fields.items()]
        details.append(error_details_pb2.BadRequest(field_violations=violations))
    seconds = retry_after if retry_after is not None else rules.retry_after.seconds
    if seconds:
        details.append(error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(seconds=seconds)))
    status = status_pb2.Status(code=rules.grpc_code, message=message or rules.message)
    for detail in details:
        packed = any_pb2.Any()
        packed.Pack(detail)
        status.details.append(packed)
    return status
