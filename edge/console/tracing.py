"""The span of each page and form of the console, where traces are on."""

from typing import TYPE_CHECKING

from aiohttp import web

from edge.console.metrics import route_of
from edge.metrics import OTHER, method_of

if TYPE_CHECKING:
    from telemetry.otel import Tracing


class PageSpan:
    """The present span of a request's task until it ends; a trace begins with it, whatever the browser sent."""

    def __init__(self, tracing: "Tracing", request: web.Request, request_id: str) -> None:
        self._tracing = tracing
        self._ended = False
        method, route = method_of(request.method), route_of(request)
        name = method if method != OTHER else "HTTP"
        attributes = {"http.request.method": method, "workflow_api.request_id": request_id}
        if route != OTHER:
            name = f"{name} {route}"
            attributes["http.route"] = route
        self._span = tracing.begun_call(name, {}, attributes)
        tracing.stay_within(self._span)

    def end(self, status: int | None, reason: str) -> None:
        """Ends it, once, with the status of the answer and the code of a refusal; what follows has no span."""
        if self._ended:
            return
        self._ended = True
        if status is not None:
            self._span.set_attribute("http.response.status_code", status)
            if reason:
                self._span.set_attribute("workflow_api.error_code", reason)
        if status is None or status >= 500:
            self._tracing.fail(self._span, reason or str(status))
        self._span.end()
        self._tracing.stay_within(None)
