"""What the spans of requests say, at the API and at the console alike."""

from typing import TYPE_CHECKING

from telemetry.request_labels import OTHER, method_of

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from telemetry.otel import Tracing


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
