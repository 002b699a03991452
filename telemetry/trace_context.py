"""Names and flags of W3C Trace Context, and what becomes of spans."""

from typing import Final

from telemetry.metrics import Counter

TRACEPARENT: Final = "traceparent"
"""The W3C header, and gRPC metadata, that names the span which a call is part of."""

TRACESTATE: Final = "tracestate"
"""The W3C header, and gRPC metadata, with what vendors add to it."""

SPANS: Final = Counter(
    "trace_spans_total",
    "Spans recorded, by what became of them.",
    ("outcome",),
    known=[("exported",), ("dropped",), ("failed",)],
)


def is_sampled(traceparent: str) -> bool:
    """Returns whether a `traceparent` of this service's own making says that its trace is recorded."""
    return int(traceparent[-2:], 16) & 1 == 1
