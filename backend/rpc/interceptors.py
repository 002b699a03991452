"""Wrapper of every RPC: its checks, errors as statuses, metrics, and log lines."""

import errno
import logging
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, Final

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.descriptor_pb2 import MethodOptions
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from backend.common import metrics
from backend.common.errors import ApiError
from backend.common.log_events import CALL
from backend.common.waits import Deferred, Pause, is_pausing, quick_of
from backend.resources.schemas.validator import ValidatorUnavailableError
from backend.rpc.answer_cache import AnswerCache, CacheLookup, cache_lookup, caching, dependence_of
from backend.rpc.callers import Admit, Guard, Identify, admission, principal_of, read_principal
from backend.storage.database import DatabaseUnavailableError
from backend.storage.objects.interface import ObjectStoreError
from backend.storage.waiting_callers import CallerGoneError, WaitingCaller, read_for
from contract import ids
from contract.local_context import LocalContext
from contract.metadata import STATUS_TRAILER
from contract.refusals import code_of
from telemetry.log_events import DEBUG, INFO
from workflow_api.v1 import errors_pb2, options_pb2

CallLog = Callable[[Message, grpc.ServicerContext, float, str, str], None]
"""Logs a call: request, context, start by `perf_counter`, status code, and reason of a refusal."""

# Time within which a stream that waits on a thread notices that its caller has gone.
_PAUSE_SECONDS: Final = 0.5
# As a database without room: the call may succeed once there is room again.
_DISK_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_OK: Final = grpc.StatusCode.OK.name
_CANCELLED: Final = grpc.StatusCode.CANCELLED.name
# Calls that edges and consoles make all the time by themselves, and calls that only follow.
_ROUTINE: Final = frozenset({"GetSession", "RecordUsage", "WatchKeyMirror", "WatchRunChanges"})

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Handler:
    """One RPC, wrapped: `call(request, context)` never raises and answers an error by the context.

    A unary RPC returns its answer, or a `DeferredCall` that has it after a commit; a streaming RPC an iterator of
    messages, and of pauses if it is `pausing`. `runs_inline(request)` says whether an event loop may make the call,
    and `cached_answer(request, metadata)`, if not None, looks up a cached answer.
    """

    call: Callable[[Any, grpc.ServicerContext], Any]
    rules: options_pb2.MethodRules
    streaming: bool
    page_read: bool
    request_class: type[Message]
    response_class: type[Message]
    pausing: bool = False
    runs_inline: Callable[[Message], bool] | None = None
    cached_answer: CacheLookup | None = None

    def answer(self, request: Message, context: grpc.ServicerContext) -> Message:
        """Returns the answer of a unary RPC, cached or from the call; waits for the commit of a change."""
        if self.cached_answer is not None:
            cached = self.cached_answer(request, context.invocation_metadata() or ())  # type: ignore[arg-type]  # text
            if cached is not None:
                return cached.message
        answer: Message | DeferredCall = self.call(request, context)
        return answer.answer() if isinstance(answer, DeferredCall) else answer

    def messages(self, request: Message, context: grpc.ServicerContext) -> Generator[Message, None, None]:
        """Yields the messages of a streaming RPC, and waits out its pauses on the caller's thread."""
        for each in self.call(request, context):
            if isinstance(each, Pause):
                each.wait(_PAUSE_SECONDS)
            else:
                yield each


def handlers_of(
    servicer: object,
    service: ServiceDescriptor,
    cache: AnswerCache | None = None,
    guard: Guard | None = None,
    identify: Identify = read_principal,
) -> dict[str, Handler]:
    """Wraps every method of a servicer, keyed by `/package.Service/Method`; answers of cacheable methods are cached.

    `identify` returns the principal, before any other check of a call; `guard` checks calls of people.

    Raises:
        ValueError: an RPC does not declare its callers, or the servicer does not implement it.
    """
    paths = {f"/{service.full_name}/{method.name}": method for method in service.methods}
    return {path: _handler(servicer, method, cache, admission(identify, guard, path)) for path, method in paths.items()}


def _handler(servicer: object, method: MethodDescriptor, cache: AnswerCache | None, admit: Admit) -> Handler:
    rules = method.GetOptions().Extensions[options_pb2.method_rules]
    if rules.access == options_pb2.ACCESS_UNSPECIFIED:
        raise ValueError(f"{method.full_name} declares no access")
    if rules.access == options_pb2.ACCESS_INTERNAL and not rules.callers:
        raise ValueError(f"{method.full_name} is internal and names no role that may call it")
    if method.name not in vars(type(servicer)):
        raise ValueError(f"{type(servicer).__name__} does not implement {method.full_name}")
    behaviour = getattr(servicer, method.name)
    response_class = GetMessageClass(method.output_type)
    label = _method_label(method.full_name)
    log = _call_log(method, label)
    quick, depends = quick_of(behaviour), dependence_of(behaviour)
    pausing = is_pausing(behaviour)
    cached_answer = None
    # Point reads are as short as what it would take to end them.
    if _reads(method) and not (method.server_streaming or rules.point_read):
        behaviour = _ending_with_caller(behaviour)
    if cache is not None and depends is not None:
        cached_answer = cache_lookup(cache, method.full_name, (label, _OK))
        behaviour = caching(cache, method.full_name, depends, behaviour)
    return Handler(
        call=(
            _wrap_stream(behaviour, method.full_name, log, admit)
            if method.server_streaming
            else _wrap_unary(behaviour, response_class, method.full_name, log, admit)
            if quick is None
            else partial(DeferredCall, behaviour, (method.full_name, label), response_class, log, admit)
        ),
        rules=rules,
        streaming=method.server_streaming,
        page_read=rules.page_read,
        request_class=GetMessageClass(method.input_type),
        response_class=response_class,
        pausing=pausing,
        runs_inline=_always if rules.point_read else None if quick is None else partial(quick, servicer),
        cached_answer=cached_answer,
    )


def _always(_: object) -> bool:
    return True


def _ending_with_caller(
    behaviour: Callable[[Message, grpc.ServicerContext], Message],
) -> Callable[[Message, grpc.ServicerContext], Message]:
    """Returns a method whose statements end at the deadline of its call, and when the caller has gone."""

    def read(request: Message, context: grpc.ServicerContext) -> Message:
        caller = WaitingCaller()
        if not context.add_callback(caller.leave):
            caller.leave()
        return read_for(caller, partial(behaviour, request, context))

    return read


class DeferredCall:
    """A call of a method that defers; it has its answer once its change is committed."""

    def __init__(
        self,
        behaviour: Callable[[Message, grpc.ServicerContext], Deferred[Message]],
        names: tuple[str, str],
        empty: type[Message],
        log: CallLog,
        admit: Admit,
        request: Message,
        context: grpc.ServicerContext,
    ) -> None:
        self._began = perf_counter()
        self._request = request
        self._context = context
        self._log = log
        self._names = names
        self._empty = empty
        self._code, self._reason = _OK, ""
        try:
            admit(request, context)
            self._deferred = behaviour(request, context)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets a status and nothing else
            self._deferred = Deferred.done(self._refused(error))

    def add_done_callback(self, action: Callable[[], None]) -> None:
        """Calls the quick action once `answer` need not wait: after the commit, or its failure."""
        self._deferred.change.add_done_callback(lambda _: action())

    def answer(self) -> Message:
        """Returns the answer, once, and never raises: an error is in the context."""
        change, answer = self._deferred
        # The callbacks of the change lead to this call: the cycle would be left to the garbage collector.
        del self._deferred
        try:
            return answer(change)
        except Exception as error:  # noqa: BLE001 - as above
            return self._refused(error)
        finally:
            metrics.GRPC_CALLS.observe(perf_counter() - self._began, (self._names[1], self._code))
            self._log(self._request, self._context, self._began, self._code, self._reason)

    def _refused(self, error: Exception) -> Message:
        self._code, self._reason = _refuse(self._context, error, self._names[0])
        return self._empty()


def _wrap_unary(
    behaviour: Callable[[Message, grpc.ServicerContext], Message],
    empty: type[Message],
    name: str,
    log: CallLog,
    admit: Admit,
) -> Callable[[Message, grpc.ServicerContext], Message]:
    method = _method_label(name)

    def call(request: Message, context: grpc.ServicerContext) -> Message:
        began, code, reason = perf_counter(), _OK, ""
        try:
            admit(request, context)
            return behaviour(request, context)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets a status and nothing else
            code, reason = _refuse(context, error, name)
            return empty()
        finally:
            metrics.GRPC_CALLS.observe(perf_counter() - began, (method, code))
            log(request, context, began, code, reason)

    return call


def _wrap_stream(
    behaviour: Callable[[Message, grpc.ServicerContext], Iterator[Message | Pause]],
    name: str,
    log: CallLog,
    admit: Admit,
) -> Callable[[Message, grpc.ServicerContext], Iterator[Message | Pause]]:
    method = _method_label(name)

    def call(request: Message, context: grpc.ServicerContext) -> Iterator[Message | Pause]:
        metrics.GRPC_STREAMS.add(method)
        began, code, reason = perf_counter(), _OK, ""
        try:
            admit(request, context)
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
    # Nobody hears this answer, and it is no outage.
    gone = isinstance(error, CallerGoneError)
    if not isinstance(error, ApiError):
        error = _logged(error, name, principal_of(context).request_id)
    if isinstance(context, LocalContext):
        context.error = error
    else:
        status = error.to_status().SerializeToString(deterministic=True)
        context.set_trailing_metadata(((STATUS_TRAILER, status),))
    context.set_code(error.grpc_code)
    context.set_details(error.message)
    return _CANCELLED if gone else error.grpc_code.name, code_of(error.reason)


def _logged(error: Exception, name: str, request_id: str) -> ApiError:
    """Logs an unexpected failure in full; returns the error for the caller, which has no details."""
    extra = {"request_id": request_id}
    if isinstance(error, DatabaseUnavailableError):
        # Edges repeat their own calls, which have no id, for as long as an outage lasts.
        expected = isinstance(error, CallerGoneError) or (error.logged and not request_id)
        level = logging.DEBUG if expected else logging.WARNING
        _LOG.log(level, "%s failed: %s", name, error, extra=extra)
    else:
        _LOG.error("%s failed", name, exc_info=error, extra=extra)
    away = isinstance(error, (DatabaseUnavailableError, ObjectStoreError, ValidatorUnavailableError)) or (
        isinstance(error, OSError) and error.errno in _DISK_FULL
    )
    return ApiError(errors_pb2.ERROR_REASON_RUNTIME_UNREACHABLE if away else errors_pb2.ERROR_REASON_INTERNAL)


def _reads(method: MethodDescriptor) -> bool:
    return bool(method.GetOptions().idempotency_level == MethodOptions.NO_SIDE_EFFECTS)


def _call_log(method: MethodDescriptor, label: str) -> CallLog:
    """Returns a function that logs the calls of a method: at `info` if the method changes data, else at `debug`."""
    level = DEBUG if _reads(method) or method.name in _ROUTINE else INFO

    def log(request: Message, context: grpc.ServicerContext, began: float, code: str, reason: str) -> None:
        if not CALL.enabled(level):
            return
        caller = principal_of(context)
        shown = level
        if level == INFO and caller.key_id is not None and isinstance(context, LocalContext):
            # The edge in this process has a line for the request.
            if not CALL.enabled(DEBUG):
                return
            shown = DEBUG
        key_id = caller.key_id or ""
        run_id = getattr(request, "run_id", "")
        subject = getattr(request, "key_id", "")
        fields = {
            "rpc": label,
            "code": code,
            "reason": reason,
            # Callers over gRPC may send anything.
            "request_id": caller.request_id if ids.ANY_ID.fullmatch(caller.request_id) else "",
            "key_id": key_id if ids.ANY_ID.fullmatch(key_id) else "",
            "run_id": run_id if run_id and ids.RUN_ID.fullmatch(run_id) else "",
            "subject_key_id": subject if isinstance(subject, str) and ids.KEY_ID.fullmatch(subject) else "",
            "ms": round((perf_counter() - began) * 1000, 3),
        }
        CALL.write(f"{label} {code}", fields, shown)

    return log
