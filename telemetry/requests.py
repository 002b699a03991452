"""Requests over HTTP in metrics, log lines and spans, at the API and at the console."""

from typing import TYPE_CHECKING, Final

from telemetry.log_events import EventLog

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from telemetry.otel import Tracing

OTHER: Final = "other"
"""Stands for paths and methods that are none of the service's: a caller may send any."""

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
"""The line of a request to the API; docs/logs.md says what it means to an operator."""

CONSOLE_REQUEST: Final = EventLog("console_request", "console.requests", ANSWERED)
"""The line of a request to the console."""


def method_of(method: str) -> str:
    """Returns a method as a label."""
    return method if method in _METHODS else OTHER


def request_message(method: str, route: str, status: int, reason: str) -> str:
    """Returns the message of the line of a request."""
    return f"{method} {route} {status}{f' {reason}' if reason else ''}"


class CheckSampler:
    """Decides which health checks are logged: the first, each hundredth, and one with another status than before."""

    def __init__(self, every: int = 100) -> None:
        self._every = every
        self._status = 0
        self._since = 0

    def checks(self, status: int) -> int:
        """Returns for how many checks the line of this one stands, this one included; 0 where it has none."""
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
    """Adds the status of the answer, None where there was none, and the code of a refusal; from 500 on it failed."""
    if status is not None:
        span.set_attribute("http.response.status_code", status)
        if reason:
            span.set_attribute("workflow_api.error_code", reason)
    if status is None or status >= 500:
        tracing.fail(span, reason or str(status))
