"""The span of each page and form of the console, where traces are on."""

from typing import TYPE_CHECKING

from aiohttp import web

from console.metrics import route_of
from telemetry.request_labels import OTHER, method_of
from telemetry.request_spans import add_answer, span_name

if TYPE_CHECKING:
    from telemetry.otel import Tracing


class PageSpan:
    """The present span of a request's task until it ends; a trace begins with it, whatever the browser sent."""

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
        """Ends it, once, with the status of the answer and the code of a refusal; what follows has no span."""
        if self._ended:
            return
        self._ended = True
        add_answer(self._tracing, self._span, status, reason)
        self._span.end()
        self._tracing.stay_within(None)
