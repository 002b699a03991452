"""The traces of this process, where it records any; `telemetry.otel` alone imports OpenTelemetry.

Parts ask `active` when they are made, before anything is served, and leave their hooks out where it is None.
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
    """Records the traces of this process by `tracing` from now on; for entry points, before parts are made."""
    _installed[:] = [tracing]
    set_trace_ids(trace_id)


def uninstall() -> None:
    """Records nothing from now on."""
    _installed.clear()
    set_trace_ids(None)


def active() -> "Tracing | None":
    """Returns what records the traces of this process; None where nothing does."""
    return _installed[0] if _installed else None


def trace_id() -> str:
    """Returns the 32 hexadecimal digits of the trace of this thread's or task's present work; empty without one."""
    return _installed[0].trace_id() if _installed else ""


def carrier() -> dict[str, str]:
    """Returns what makes other work part of the present span; empty without one."""
    return _installed[0].carrier() if _installed else {}


def child(name: str) -> AbstractContextManager[object]:
    """Returns a span below the present one, or nothing where that is not recorded."""
    return _installed[0].child(name) if _installed else nullcontext()


def recorded() -> tuple[str, str | None] | None:
    """Returns `traceparent` and `tracestate` of the present span, for later work; None where it is not recorded."""
    if not _installed or not _installed[0].recording:
        return None
    carrier = _installed[0].carrier()
    return carrier[TRACEPARENT], carrier.get(TRACESTATE)


def measured() -> list[Family]:
    """Returns what became of the spans of this process."""
    return [SPANS.collect()]
