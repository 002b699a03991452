"""Metrics, log lines and traces of every part; all but `otel` use the standard library and orjson only."""

from telemetry.metrics import (
    Counter,
    Family,
    Gauge,
    Histogram,
    Metric,
    MetricSource,
    MetricsRegistry,
    NamedCounter,
    NamedGauge,
    NamedLongest,
    Sample,
    TimedCounter,
    UpDownCounter,
)

__all__ = [
    "Counter",
    "Family",
    "Gauge",
    "Histogram",
    "Metric",
    "MetricSource",
    "MetricsRegistry",
    "NamedCounter",
    "NamedGauge",
    "NamedLongest",
    "Sample",
    "TimedCounter",
    "UpDownCounter",
]
