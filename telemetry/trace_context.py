"""Names and flags of W3C Trace Context, and the counter of exported and lost spans."""

from typing import Final

from telemetry.metrics import Counter

TRACEPARENT: Final = "traceparent"
"""W3C header and gRPC metadata with the parent span of a call."""

TRACESTATE: Final = "tracestate"
"""W3C header and gRPC metadata with vendors' additions to `traceparent`."""

SPANS: Final = Counter(
    "trace_spans_total",
    "Spans recorded, by what became of them.",
    ("outcome",),
    known=[("exported",), ("dropped",), ("failed",)],
)


def is_sampled(traceparent: str) -> bool:
    """Returns whether a well-formed `traceparent` marks its trace as recorded."""
    return int(traceparent[-2:], 16) & 1 == 1
