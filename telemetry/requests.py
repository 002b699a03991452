"""HTTP requests in metrics, log lines and spans, for the API and the console alike."""

from typing import TYPE_CHECKING, Final

from telemetry.log_events import EventLog

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from telemetry.otel import Tracing

OTHER: Final = "other"
"""Label for paths and methods that the service does not have."""

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

ANSWERED: Final = (
    *("request_id", "method", "route", "status", "reason", "ms", "bytes_in", "bytes_out"),
    *("checks", "address"),
)
"""Fields of the line of a request."""

CLIENT_GONE: Final = "client_gone"
"""Reason of a request whose caller disconnected before it had its answer."""

ABORTED: Final = "aborted"
"""Reason of a request whose answer was cut off: by a failure behind it, a bound on callers, or the process's end."""

REQUEST: Final = EventLog("request", "edge.requests", (*ANSWERED, "key_id", "run_id", "waited_ms", "cause"))
"""Line of a request to the API, explained in docs/logs.md."""

CONSOLE_REQUEST: Final = EventLog("console_request", "console.requests", ANSWERED)
"""Line of a request to the console."""


def method_of(method: str) -> str:
    """Returns the label of a method; `OTHER` for unknown methods."""
    return method if method in _METHODS else OTHER


def request_message(method: str, route: str, status: int, reason: str) -> str:
    """Returns the message of a request's line."""
    return f"{method} {route} {status}{f' {reason}' if reason else ''}"


class CheckSampler:
    """Sampler of health checks' log lines: the first, each hundredth, and each with a changed status."""

    def __init__(self, every: int = 100) -> None:
        self._every = every
        self._status = 0
        self._since = 0

    def checks(self, status: int) -> int:
        """Counts a check; returns the number of checks that its line stands for, or 0 for no line."""
        self._since += 1
        if status == self._status and self._since < self._every:
            return 0
        checks, self._since, self._status = self._since, 0, status
        return checks


def span_name(method: str, route: str = "") -> str:
    """Returns the name of a request's span: its method and, where the path has one, its route."""
    known = method_of(method)
    name = "HTTP" if known == OTHER else known
    return f"{name} {route}" if route else name


def add_answer(tracing: "Tracing", span: "Span", status: int | None, reason: str) -> None:
    """Adds an answer's status and a refusal's code to a span; marks it as failed from 500 on, or without a status."""
    if status is not None:
        span.set_attribute("http.response.status_code", status)
        if reason:
            span.set_attribute("workflow_api.error_code", reason)
    if status is None or status >= 500:
        tracing.fail(span, reason or str(status))
