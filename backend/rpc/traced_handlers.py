"""Handlers with a span for each call, where traces are on."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import grpc
from google.protobuf.message import Message

from backend.common.principal import Principal
from backend.rpc.callers import principal_of
from backend.rpc.interceptors import DeferredCall, Handler
from telemetry.trace_context import TRACEPARENT, TRACESTATE

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from telemetry.otel import Tracing

# Calls of edges for themselves, made every second or lasting hours.
_UNTRACED: Final = "/workflow_api.v1.EdgeService/"
_CARRIER: Final = (TRACEPARENT, TRACESTATE)
# Codes of which the server itself is the cause.
_FAILED: Final = frozenset({"UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"})


def traced(path: str, handler: Handler, tracing: "Tracing") -> Handler:
    """Returns the handler with spans; answers that an edge of this process takes from the answer cache have none.

    A call is part of the trace that its metadata name; calls without one, as of commands, begin their own.
    """
    if path.startswith(_UNTRACED):
        return handler
    spans = _Spans(path[1:], tracing)
    return replace(handler, call=(spans.around_stream if handler.streaming else spans.around)(handler.call))


class _Spans:
    """The spans of one RPC."""

    def __init__(self, method: str, tracing: "Tracing") -> None:
        self._method = method
        self._tracing = tracing

    def around(self, call: Callable[[Any, grpc.ServicerContext], Any]) -> Callable[[Any, grpc.ServicerContext], Any]:
        def traced_call(request: Message, context: grpc.ServicerContext) -> Any:
            span = self._begin(context)
            try:
                with self._tracing.within(span):
                    answer = call(request, context)
            except BaseException:
                self._end(span, context)
                raise
            if isinstance(answer, DeferredCall):
                return _TracedCall(answer, lambda: self._tracing.within(span), lambda: self._end(span, context))
            self._end(span, context)
            return answer

        return traced_call

    def around_stream(
        self, call: Callable[[Any, grpc.ServicerContext], Iterator[Any]]
    ) -> Callable[[Any, grpc.ServicerContext], Iterator[Any]]:
        def traced_stream(request: Message, context: grpc.ServicerContext) -> Iterator[Any]:
            messages: Any = call(request, context)
            if TRACEPARENT not in dict(context.invocation_metadata() or ()):
                # Streams of the console and of commands, which may last as long as the run that they follow.
                yield from messages
                return
            span = self._begin(context)
            try:
                while True:
                    # Each step of the stream may run on another thread.
                    with self._tracing.within(span):
                        message = next(messages, None)
                    if message is None:
                        return
                    yield message
            finally:
                messages.close()
                self._end(span, context)

        return traced_stream

    def _begin(self, context: grpc.ServicerContext) -> "Span":
        metadata: dict[str, Any] = dict(context.invocation_metadata() or ())
        carrier: dict[str, str] = {name: metadata[name] for name in _CARRIER if name in metadata}
        attributes = {"rpc.system.name": "grpc", "rpc.method": self._method, **_named(principal_of(context))}
        return self._tracing.begun_call(self._method, carrier, attributes)

    def _end(self, span: "Span", context: grpc.ServicerContext) -> None:
        if span.is_recording():
            code: Any = context.code()  # type: ignore[attr-defined]  # of all kinds of context
            name = "OK" if code is None else code.name
            span.set_attribute("rpc.response.status_code", name)
            if name in _FAILED:
                self._tracing.fail(span, name)
        span.end()


class _TracedCall(DeferredCall):
    """A call under way, whose span ends with its answer."""

    def __init__(
        self, pending: DeferredCall, within: Callable[[], AbstractContextManager[object]], end: Callable[[], None]
    ) -> None:
        self._pending = pending
        self._within = within
        self._end = end

    def add_done_callback(self, action: Callable[[], None]) -> None:
        """Calls the action once `answer` need not wait; see `DeferredCall.add_done_callback`."""
        self._pending.add_done_callback(action)

    def answer(self) -> Message:
        """Returns the answer, once; see `DeferredCall`."""
        try:
            with self._within():
                return self._pending.answer()
        finally:
            self._end()


def _named(caller: Principal) -> dict[str, str]:
    """Returns the attributes that name the caller, without names of people."""
    named = {"workflow_api.request_id": caller.request_id, "workflow_api.key_id": caller.key_id or ""}
    return {name: value for name, value in named.items() if value}
