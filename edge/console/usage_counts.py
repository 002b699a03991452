"""Counts of calls by hour or day, and by route (contract 27.3)."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from contract.times import milliseconds_of
from edge.console.charts import Bar
from edge.console.times import DAY_MS, HOUR_MS, day, hour
from workflow_api.v1.usage_pb2 import UsageHour

KINDS: Final = ("answered", "refused", "failed")
"""Outcomes of calls: 2xx, 4xx and 5xx."""


class Window(NamedTuple):
    """The time that a view covers, and the length of time that each of its bars counts."""

    name: str
    label: str
    length_ms: int
    span_ms: int

    def starts(self, now: int) -> range:
        """Returns the start of each span of the window, oldest first; the last span has not ended."""
        last = now - now % self.span_ms
        return range(last - self.length_ms + self.span_ms, last + 1, self.span_ms)


WINDOWS: Final = (
    Window("day", "24 hours", DAY_MS, HOUR_MS),
    Window("week", "7 days", 7 * DAY_MS, HOUR_MS),
    Window("quarter", "90 days", 90 * DAY_MS, DAY_MS),
)


class Span(NamedTuple):
    """Numbers of calls in the span that begins at `at_ms`, by kind."""

    at_ms: int
    label: str
    answered: int
    refused: int
    failed: int

    @property
    def calls(self) -> int:
        """The number of all calls."""
        return self.answered + self.refused + self.failed


class RouteCount(NamedTuple):
    """Number of calls of a route with a status."""

    method: str
    route: str
    status: int
    calls: int


def window_named(name: str) -> Window:
    """Returns the window of that name; the first one for any other name."""
    return next((window for window in WINDOWS if window.name == name), WINDOWS[0])


def spans(counts: Iterable[UsageHour], window: Window, now: int) -> list[Span]:
    """Returns every span of a window, oldest first, including those without calls."""
    found: Counter[tuple[int, str]] = Counter()
    for count in counts:
        hour_ms = milliseconds_of(count.hour)
        found[hour_ms - hour_ms % window.span_ms, _kind(count.status)] += count.calls
    label = hour if window.span_ms == HOUR_MS else day
    return [Span(at, label(at), *(found[at, kind] for kind in KINDS)) for at in window.starts(now)]


def routes(counts: Iterable[UsageHour]) -> list[RouteCount]:
    """Returns the counts by route and status, the most frequent first."""
    found: Counter[tuple[str, str, int]] = Counter()
    for count in counts:
        found[count.method, count.route, count.status] += count.calls
    ordered = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return [RouteCount(*name, calls) for name, calls in ordered]


def bars_of(found: Sequence[Span]) -> list[Bar]:
    """Returns spans as the bars of a chart."""
    return [Bar(span.label, (span.answered, span.refused, span.failed)) for span in found]


def _kind(status: int) -> str:
    if status < 400:
        return "answered"
    return "refused" if status < 500 else "failed"
