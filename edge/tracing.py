"""OpenTelemetry spans of requests to the API, where traces are on."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from contract.routes import BASE, HEALTH
from edge.admission.call import Call
from edge.http.request import HttpRequest
from edge.http.response import Answer
from telemetry.requests import add_answer, method_of, span_name
from telemetry.trace_context import TRACEPARENT, TRACESTATE

if TYPE_CHECKING:
    from telemetry.otel import Tracing

Handler = Callable[[HttpRequest], Awaitable[Answer]]

_UNDER_BASE: Final = BASE + "/"


class RequestTracing:
    """Makes the spans of requests; with `continues` the spans continue the traces that callers name."""

    def __init__(self, tracing: "Tracing", *, continues: bool) -> None:
        self._tracing = tracing
        self._continues = continues

    def around(self, handler: Handler) -> Handler:
        """Returns the handler with a span around each request to the API except health."""
        tracing, continues = self._tracing, self._continues

        async def traced(request: HttpRequest) -> Answer:
            path = request.path
            if not path.startswith(_UNDER_BASE) or path == HEALTH:
                tracing.stay_within(None)
                return await handler(request)
            name, attributes = span_name(request.method), {"http.request.method": method_of(request.method)}
            span = tracing.begun_call(name, carrier_of(request), attributes, continues=continues)
            # The span stays current until the connection's next request: log lines of a request follow its answer.
            tracing.stay_within(span)
            try:
                return await handler(request)
            finally:
                span.end()

        return traced

    def answered(self, call: Call, status: int, reason: str) -> None:
        """Adds route, status, ids and reason of a call to its span; never content nor the key itself."""
        span = self._tracing.present
        if not span.is_recording():
            return
        request, route = call.request, call.template
        span.set_attribute("workflow_api.request_id", request.request_id)
        if route:
            span.set_attribute("http.route", route)
            span.update_name(span_name(request.method, route))
        if call.key_id:
            span.set_attribute("workflow_api.key_id", call.key_id)
        add_answer(self._tracing, span, status, reason)


def carrier_of(request: HttpRequest) -> dict[str, str]:
    """Returns the caller's `traceparent` and `tracestate`; empty where the first is given more than once."""
    parents = request.header_values(TRACEPARENT)
    if len(parents) != 1:
        return {}
    states = request.header_values(TRACESTATE)
    return {TRACEPARENT: parents[0], TRACESTATE: ",".join(states)} if states else {TRACEPARENT: parents[0]}
