"""Metrics of an edge, explained in docs/metrics.md."""

from typing import Final

from contract.channel.backend_watch import BACKEND_COMPATIBLE, BACKEND_UP
from contract.refusals import BY_CODE
from telemetry import Counter, Family, Gauge, Histogram, TimedCounter

REQUESTS: Final = TimedCounter(
    Counter("http_requests_total", "Requests answered.", ("route", "method", "status")),
    Histogram(
        "http_request_seconds",
        "From the end of a request's headers until its answer, or the first byte of a download, is ready.",
        ("route", "method"),
    ),
)
REFUSALS: Final = Counter(
    "http_refusals_total", "Requests refused, by error code.", ("code",), known=[(code,) for code in BY_CODE]
)
MALFORMED: Final = Counter("http_malformed_requests_total", "Requests that were not well-formed HTTP.")
DOWNLOADED: Final = Counter("http_download_bytes_total", "Bytes of outputs and bundles sent to callers.")
IN_FLIGHT: Final = Gauge("http_requests_in_flight", "Requests under way.")
CONNECTIONS: Final = Gauge("http_connections", "Open connections of callers.")
CONNECTIONS_LIMIT: Final = Gauge("http_connections_limit", "Most open connections of callers.")
WAITING: Final = Gauge("http_waiting", "Calls held until something new is there, and streams of events.")
HELD: Final = Gauge("http_held_bytes", "Bytes kept for requests and answers under way.")
HELD_LIMIT: Final = Gauge("http_held_bytes_limit", "Most bytes kept for requests and answers under way.")
SENT_AWAY: Final = Counter("http_callers_sent_away_total", "Connections evicted because a limit was reached.")
KEYS_AGE: Final = Gauge("keys_age_seconds", "Age of the copy of the keys; +Inf before the first.")
USAGE_PENDING: Final = Gauge("usage_records_pending", "Usage records that are still to be sent to the backend.")
USAGE_LOST: Final = Counter("usage_records_lost_total", "Usage records dropped.")
RATE_LIMIT_SHARED: Final = Gauge(
    "rate_limit_shared", "1 while edges count requests per minute together, 0 while each alone."
)
RATE_LIMIT_FAILURES: Final = Counter("rate_limit_failures_total", "Times that Redis could not count.")


def counted() -> list[Family]:
    """Returns the counters of this process; `Edge.measured` adds the gauges of an edge."""
    counters = (REFUSALS, MALFORMED, DOWNLOADED, RATE_LIMIT_FAILURES)
    # A backend in the same process is not watched, so its gauges have no series.
    watched = [gauge.with_values({}) for gauge in (BACKEND_UP, BACKEND_COMPATIBLE)]
    return [*REQUESTS.collect(), *(counter.collect() for counter in counters), *watched]
