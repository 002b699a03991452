"""Wrapper of every RPC: validation of requests, errors as statuses, and metrics."""

import logging
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, Final

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from backend import metrics
from backend.answer_cache import AnswerCache, CacheLookup, cache_lookup, caching, dependence_of
from backend.caller import Caller
from backend.deferred import Deferred, quick_of
from backend.errors import ApiError
from backend.pauses import Pause, is_pausing
from backend.rpc.call_log import CallLog, call_log
from backend.rpc.calling_keys import named_key
from backend.rpc.paused_streams import PausedStreams
from backend.rpc.people import Guard, guarded
from backend.schemas.judge import JudgeUnavailableError
from backend.storage.database import DatabaseUnavailableError
from backend.storage.objects.interface import ObjectStoreError
from backend.validation import validate
from contract.local_context import LocalContext
from contract.metadata import ACTOR, KEY_ID, PERSON, REQUEST_ID, STATUS_TRAILER, decode_actor
from contract.reasons import code_of
from workflow_api.v1 import errors_pb2, options_pb2

Check = Callable[[grpc.ServicerContext], object]

# How soon a stream that waits on a thread notices that its caller has gone.
_PAUSE_SECONDS: Final = 0.5
_OK: Final = grpc.StatusCode.OK.name

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Handler:
    """One RPC, wrapped: `call(request, context)` never raises and answers an error by the context.

    A unary one returns its answer, or a `DeferredCall` that has it after a commit; a streaming one an iterator of
    messages, and of pauses where it is `pausing`. `at_once` says of a request whether an event loop may make the call
    itself, and `cached_answer(request, metadata)` looks the answer up, where there is a lookup.
    """

    call: Callable[[Any, grpc.ServicerContext], Any]
    rules: options_pb2.MethodRules
    streaming: bool
    page_read: bool
    request_class: type[Message]
    response_class: type[Message]
    pausing: bool = False
    at_once: Callable[[Any], bool] | None = None
    cached_answer: CacheLookup | None = None

    def answer(self, request: Message, context: grpc.ServicerContext) -> Message:
        """Returns the answer of a unary RPC: the cached one, or else what the call gives; waits for its commit."""
        if self.cached_answer is not None:
            cached = self.cached_answer(request, context.invocation_metadata() or ())  # type: ignore[arg-type]  # text
            if cached is not None:
                return cached.message
        answer: Message | DeferredCall = self.call(request, context)
        return answer.answer() if isinstance(answer, DeferredCall) else answer

    def messages(self, request: Message, context: grpc.ServicerContext) -> Generator[Message, None, None]:
        """Yields the messages of a streaming RPC, and waits out its pauses, for callers that give it a thread."""
        for each in self.call(request, context):
            if isinstance(each, Pause):
                each.wait(_PAUSE_SECONDS)
            else:
                yield each


def caller_of(context: grpc.ServicerContext) -> Caller:
    """Reads who calls from the call's metadata."""
    metadata: dict[str, str] = dict(context.invocation_metadata() or ())  # type: ignore[arg-type]  # text, by our keys
    return Caller(
        key_id=metadata.get(KEY_ID),
        actor=decode_actor(metadata.get(ACTOR, "internal")),
        request_id=metadata.get(REQUEST_ID, ""),
        person=metadata.get(PERSON),
        workflow_ids=getattr(context, "workflow_ids", None),
    )


def handlers_of(
    servicer: object,
    service: ServiceDescriptor,
    cache: AnswerCache | None = None,
    guard: Guard | None = None,
    check: Check = named_key,
) -> dict[str, Handler]:
    """Wraps every method of a servicer, keyed by `/package.Service/Method`; answers of cacheable methods are cached.

    `guard` decides what people may call; without one there are none. `check` judges the metadata of each call first.

    Raises:
        ValueError: an RPC does not declare who may call it, or the servicer does not implement it.
    """
    paths = {f"/{service.full_name}/{method.name}": method for method in service.methods}
    return {path: _handler(servicer, path, method, cache, guard, check) for path, method in paths.items()}


def _handler(
    servicer: object, path: str, method: MethodDescriptor, cache: AnswerCache | None, guard: Guard | None, check: Check
) -> Handler:
    rules = method.GetOptions().Extensions[options_pb2.method_rules]
    if rules.access == options_pb2.ACCESS_UNSPECIFIED:
        raise ValueError(f"{method.full_name} declares no access")
    if rules.access == options_pb2.ACCESS_INTERNAL and not rules.callers:
        raise ValueError(f"{method.full_name} is internal and names no role that may call it")
    if method.name not in vars(type(servicer)):
        raise ValueError(f"{type(servicer).__name__} does not implement {method.full_name}")
    behaviour = getattr(servicer, method.name)
    if guard is not None:
        behaviour = guarded(behaviour, guard, path, caller_of)
    response_class = GetMessageClass(method.output_type)
    log = call_log(method, _method_label(method.full_name))
    quick, depends = quick_of(behaviour), dependence_of(behaviour)
    cached_answer = None
    if cache is not None and depends is not None:
        cached_answer = cache_lookup(cache, method.full_name, (_method_label(method.full_name), _OK))
        behaviour = caching(cache, method.full_name, depends, behaviour)
    return Handler(
        call=(
            _wrap_stream(behaviour, method.full_name, log, check)
            if method.server_streaming
            else _wrap_unary(behaviour, response_class, method.full_name, log, check)
            if quick is None
            else _wrap_deferring(behaviour, response_class, method.full_name, log, check)
        ),
        rules=rules,
        streaming=method.server_streaming,
        page_read=rules.page_read,
        request_class=GetMessageClass(method.input_type),
        response_class=response_class,
        pausing=is_pausing(behaviour),
        at_once=_always if rules.point_read else None if quick is None else partial(quick, servicer),
        cached_answer=cached_answer,
    )


def _always(_: object) -> bool:
    return True


class DeferredCall:
    """A call of a method that defers: its answer, once the change that it waits for is committed."""

    def __init__(
        self,
        behaviour: Callable[[Any, grpc.ServicerContext], Deferred[Message]],
        request: Message,
        context: grpc.ServicerContext,
        names: tuple[str, str],
        empty: type[Message],
        log: CallLog,
        check: Check,
    ) -> None:
        self._began = perf_counter()
        self._request = request
        self._context = context
        self._log = log
        self._names = names
        self._empty = empty
        self._code, self._reason = _OK, ""
        try:
            check(context)
            validate(request)
            self._deferred = behaviour(request, context)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets a status and nothing else
            self._deferred = Deferred.done(self._refused(error))

    def call_back(self, action: Callable[[], None]) -> None:
        """Calls the action once `answer` need not wait; see `Deferred.call_back`."""
        self._deferred.call_back(action)

    def answer(self) -> Message:
        """Returns the answer, once, and never raises: an error is in the context."""
        try:
            return self._deferred.answer()
        except Exception as error:  # noqa: BLE001 - as above
            return self._refused(error)
        finally:
            metrics.GRPC_CALLS.observe(perf_counter() - self._began, (self._names[1], self._code))
            self._log(self._request, self._context, self._began, self._code, self._reason)

    def _refused(self, error: Exception) -> Message:
        self._code, self._reason = _refuse(self._context, error, self._names[0])
        return self._empty()


def _wrap_deferring(
    behaviour: Callable[[Any, grpc.ServicerContext], Deferred[Message]],
    empty: type[Message],
    name: str,
    log: CallLog,
    check: Check,
) -> Callable[[Any, grpc.ServicerContext], DeferredCall]:
    names = (name, _method_label(name))
    return lambda request, context: DeferredCall(behaviour, request, context, names, empty, log, check)


def _wrap_unary(
    behaviour: Callable[[Any, grpc.ServicerContext], Message],
    empty: type[Message],
    name: str,
    log: CallLog,
    check: Check,
) -> Callable[[Any, grpc.ServicerContext], Message]:
    method = _method_label(name)

    def call(request: Message, context: grpc.ServicerContext) -> Message:
        began, code, reason = perf_counter(), _OK, ""
        try:
            check(context)
            validate(request)
            return behaviour(request, context)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets a status and nothing else
            code, reason = _refuse(context, error, name)
            return empty()
        finally:
            metrics.GRPC_CALLS.observe(perf_counter() - began, (method, code))
            log(request, context, began, code, reason)

    return call


def _wrap_stream(
    behaviour: Callable[[Any, grpc.ServicerContext], Iterator[Message | Pause]], name: str, log: CallLog, check: Check
) -> Callable[[Any, grpc.ServicerContext], Iterator[Any]]:
    method = _method_label(name)

    def call(request: Message, context: grpc.ServicerContext) -> Iterator[Message | Pause]:
        metrics.GRPC_STREAMS.add(method)
        began, code, reason = perf_counter(), _OK, ""
        try:
            check(context)
            validate(request)
            yield from behaviour(request, context)
        except Exception as error:  # noqa: BLE001 - as above
            code, reason = _refuse(context, error, name)
        finally:
            metrics.GRPC_STREAMS.add_many(-1, method)
            metrics.GRPC_STREAMS_ENDED.add(method, code)
            log(request, context, began, code, reason)

    return call


def _method_label(full_name: str) -> str:
    """Returns the method as metrics name it: `RunsService/GetRun`."""
    return "/".join(full_name.split(".")[-2:])


def _refuse(context: grpc.ServicerContext, error: Exception, name: str) -> tuple[str, str]:
    """Answers with the error and returns the name of its code, and its reason as the API names it."""
    if not isinstance(error, ApiError):
        error = _logged(error, name, caller_of(context).request_id)
    if isinstance(context, LocalContext):
        context.error = error
    else:
        status = error.to_status().SerializeToString(deterministic=True)
        context.set_trailing_metadata(((STATUS_TRAILER, status),))
    context.set_code(error.grpc_code)
    context.set_details(error.message)
    return error.grpc_code.name, code_of(error.reason)


def _logged(error: Exception, name: str, request_id: str) -> ApiError:
    """Logs a failure that the caller learns nothing of; returns what it is answered with."""
    extra = {"request_id": request_id}
    if isinstance(error, DatabaseUnavailableError):
        # Edges repeat calls of their own, without an id, for as long as an outage lasts.
        level = logging.WARNING if request_id or not error.logged else logging.DEBUG
        _LOG.log(level, "%s failed: %s", name, error, extra=extra)
    else:
        _LOG.error("%s failed", name, exc_info=error, extra=extra)
    away = isinstance(error, (DatabaseUnavailableError, ObjectStoreError, JudgeUnavailableError))
    return ApiError(errors_pb2.ERROR_REASON_RUNTIME_UNREACHABLE if away else errors_pb2.ERROR_REASON_INTERNAL)


def generic_handler(
    handlers: Mapping[str, Handler], stream_pool: object, paused: PausedStreams
) -> grpc.GenericRpcHandler:
    """Returns the handlers for a grpc server; streams run in pools of their own and leave threads for other calls."""
    table = {path: _method_handler(handler, stream_pool, paused) for path, handler in handlers.items()}

    class _Handlers(grpc.GenericRpcHandler):
        def service(self, details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[Any, Any] | None":
            return table.get(details.method)

    return _Handlers()


def _method_handler(handler: Handler, stream_pool: object, paused: PausedStreams) -> "grpc.RpcMethodHandler[Any, Any]":
    parse, serialize = handler.request_class.FromString, handler.response_class.SerializeToString
    if not handler.streaming:
        return grpc.unary_unary_rpc_method_handler(handler.answer, parse, serialize)
    if handler.pausing:
        return grpc.unary_stream_rpc_method_handler(paused.behaviour(handler.call), parse, serialize)
    # grpc looks for the pool on the behaviour itself.
    handler.call.experimental_thread_pool = stream_pool  # type: ignore[attr-defined]
    return grpc.unary_stream_rpc_method_handler(handler.call, parse, serialize)
