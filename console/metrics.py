"""Metrics of the console; docs/metrics.md describes each for operators."""

from typing import Final

from aiohttp import web

from telemetry import Counter, Gauge
from telemetry.request_labels import OTHER, method_of

REQUESTS: Final = Counter(
    "console_requests_total", "Requests that the console answered.", ("route", "method", "status")
)
CONNECTIONS: Final = Gauge("console_connections", "Browsers' connections to the console.")
LIVE_UPDATES: Final = Gauge("console_live_updates", "Open streams of live updates.")


def count(request: web.Request, status: int) -> None:
    """Counts one request; unknown paths share one label value, because a client may ask for any path."""
    REQUESTS.add(route_of(request), method_of(request.method), status)


def route_of(request: web.Request) -> str:
    """Returns the template of a request's path."""
    resource = request.match_info.route.resource
    return OTHER if resource is None else resource.canonical
