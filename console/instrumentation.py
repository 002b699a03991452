"""Instrumentation of the console: metrics, a log line and a span for each request."""

from time import perf_counter
from typing import TYPE_CHECKING, Final

from aiohttp import web

from contract.addresses import plain_address
from telemetry import Counter, Gauge
from telemetry.log_events import DEBUG
from telemetry.requests import CONSOLE_REQUEST, OTHER, CheckSampler, add_answer, method_of, request_message, span_name

if TYPE_CHECKING:
    from telemetry.otel import Tracing

REQUESTS: Final = Counter(
    "console_requests_total", "Requests that the console answered.", ("route", "method", "status")
)
CONNECTIONS: Final = Gauge("console_connections", "Browsers' connections to the console.")
LIVE_UPDATES: Final = Gauge("console_live_updates", "Open streams of live updates.")


class ConsoleRequestLog:
    """Writes the request lines of one console; lines of `health` checks are sampled."""

    def __init__(self, health: str) -> None:
        self._health = health
        self._checks = CheckSampler()

    def add(
        self, request: web.Request, request_id: str, began: float, response: web.StreamResponse | None, reason: str
    ) -> None:
        """Writes the line of a request that began at `began` by `perf_counter`; `response` is None if none was sent."""
        if not CONSOLE_REQUEST.enabled():
            return
        status = 0 if response is None else response.status
        checks = self._checks.checks(status) if request.path == self._health else None
        if checks == 0:
            return
        method, route = method_of(request.method), route_of(request)
        fields = {
            "method": method,
            "route": route,
            "status": status,
            "reason": reason,
            "request_id": request_id,
            "ms": round((perf_counter() - began) * 1000, 3),
            "bytes_in": request.content_length or 0,
            "bytes_out": _length(response),
            "checks": checks,
            "address": plain_address(request.remote or "") if CONSOLE_REQUEST.enabled(DEBUG) else "",
        }
        CONSOLE_REQUEST.write(request_message(method, route, status, reason), fields)


class PageSpan:
    """Span of a request, current in its task until `end`; always the root of a trace, whatever the browser sent."""

    def __init__(self, tracing: "Tracing", request: web.Request, request_id: str) -> None:
        self._tracing = tracing
        self._ended = False
        route = "" if (found := route_of(request)) == OTHER else found
        attributes = {"http.request.method": method_of(request.method), "workflow_api.request_id": request_id}
        if route:
            attributes["http.route"] = route
        self._span = tracing.begun_call(span_name(request.method, route), {}, attributes)
        tracing.stay_within(self._span)

    def end(self, status: int | None, reason: str) -> None:
        """Ends the span, once, with the status of the answer and the code of a refusal."""
        if self._ended:
            return
        self._ended = True
        add_answer(self._tracing, self._span, status, reason)
        self._span.end()
        self._tracing.stay_within(None)


def count(request: web.Request, status: int) -> None:
    """Counts one request; unknown paths share one label value, because a client may ask for any path."""
    REQUESTS.add(route_of(request), method_of(request.method), status)


def route_of(request: web.Request) -> str:
    """Returns the template of a request's path."""
    resource = request.match_info.route.resource
    return OTHER if resource is None else resource.canonical


def _length(response: web.StreamResponse | None) -> int:
    """Returns the number of bytes of a response's body; 0 where unknown."""
    if isinstance(response, web.Response) and isinstance(response.body, bytes | bytearray):
        return len(response.body)
    return 0 if response is None else response.body_length
