"""Metrics of the backends that a channel calls; docs/metrics.md says what each means to an operator."""

from typing import Final

from telemetry import Gauge

BACKEND_UP: Final = Gauge("backend_up", "1 where a backend can be reached and called, else 0.", ("backend",))
BACKEND_COMPATIBLE: Final = Gauge(
    "backend_compatible", "1 where a backend that was reached has compatible versions, else 0.", ("backend",)
)
