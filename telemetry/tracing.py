"""Access to this process's tracing, if installed, without importing OpenTelemetry, as `telemetry.otel` does.

Parts call `active` when they are made, before serving begins, and leave their hooks out where it returns None.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from telemetry.log_output import set_trace_ids
from telemetry.metrics import Family
from telemetry.trace_context import SPANS, TRACEPARENT, TRACESTATE

if TYPE_CHECKING:
    from telemetry.otel import Tracing

_installed: "list[Tracing]" = []


def install(tracing: "Tracing") -> None:
    """Records this process's traces by `tracing` from now on; for entry points, before parts are made."""
    _installed[:] = [tracing]
    set_trace_ids(trace_id)


def uninstall() -> None:
    """Stops recording traces."""
    _installed.clear()
    set_trace_ids(None)


def active() -> "Tracing | None":
    """Returns the installed tracing; None where traces are off."""
    return _installed[0] if _installed else None


def trace_id() -> str:
    """Returns the id of the current trace, 32 hexadecimal digits; empty without a trace."""
    return _installed[0].trace_id() if _installed else ""


def carrier() -> dict[str, str]:
    """Returns the carrier that makes other work a child of the current span; empty without a span."""
    return _installed[0].carrier() if _installed else {}


def child(name: str) -> AbstractContextManager[object]:
    """Returns the context of a child of the current span; an empty context if that is not recorded."""
    return _installed[0].child(name) if _installed else nullcontext()


def recorded() -> tuple[str, str | None] | None:
    """Returns `traceparent` and `tracestate` of the current span, for later work; None if it is not recorded."""
    if not _installed or not _installed[0].recording:
        return None
    carrier = _installed[0].carrier()
    return carrier[TRACEPARENT], carrier.get(TRACESTATE)


def measured() -> list[Family]:
    """Returns the counts of this process's exported and lost spans."""
    return [SPANS.collect()]
