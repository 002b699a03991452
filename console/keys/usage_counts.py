"""Counts of a key's calls by hour and day, for charts and tables of usage, and for the list of keys."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from markupsafe import Markup

from console.rendering.charts import Bar, spark_line
from console.rendering.times import DAY_MS, HOUR_MS, day, hour, start_of_day
from console.visit import UserServices
from contract.times import milliseconds_of, to_timestamp
from workflow_api.v1.usage_pb2 import CountCallsByKeyRequest, UsageHour, UsageRecord

KINDS: Final = ("answered", "refused", "failed")
"""Outcomes of calls: 2xx, 4xx and 5xx."""

OTHERS: Final = "others"

_RANGE: Final = "range"
_SERIES: Final = 6
_LONGEST_DAYS: Final = 90
_BY_THE_HOUR_DAYS: Final = 7


class Window(NamedTuple):
    """Time window of a usage view, and the time span of each bar."""

    name: str
    label: str
    length_ms: int
    span_ms: int

    @property
    def when(self) -> str:
        """Words for the window at the end of a sentence."""
        return f"from {self.label}" if self.name == _RANGE else f"in the last {self.label}"

    def starts(self, now: int) -> range:
        """Returns the start of each span of the window, oldest first; the last span contains `now`."""
        last = now - now % self.span_ms
        return range(last - self.length_ms + self.span_ms, last + 1, self.span_ms)


WINDOWS: Final = (
    Window("day", "24 hours", DAY_MS, HOUR_MS),
    Window("week", "7 days", 7 * DAY_MS, HOUR_MS),
    Window("quarter", "90 days", 90 * DAY_MS, DAY_MS),
)


class Stack(NamedTuple):
    """Numbers of calls in the span from `at_ms` on, one for each series."""

    at_ms: int
    label: str
    parts: Sequence[int]

    @property
    def calls(self) -> int:
        """Number of calls of all series."""
        return sum(self.parts)


class RouteCount(NamedTuple):
    """Number of calls of a route with a status."""

    method: str
    route: str
    status: int
    calls: int


class Latency(NamedTuple):
    """Durations of a route's calls, in milliseconds: median, 95th and 99th percentile."""

    call: str
    calls: int
    p50: float
    p95: float
    p99: float


def window_named(name: str) -> Window:
    """Returns the window named `name`; the first window for any other name."""
    return next((window for window in WINDOWS if window.name == name), WINDOWS[0])


def window_between(first: str, last: str) -> tuple[Window, int]:
    """Returns the window from one UTC day to another, both included, and its last millisecond.

    Raises:
        ValueError: a text is no day such as `2026-09-24`, or the days are not 1 to 90 in order.
    """
    began, ended = start_of_day(first), start_of_day(last) + DAY_MS
    days = (ended - began) // DAY_MS
    if not 1 <= days <= _LONGEST_DAYS:
        raise ValueError(days)
    span = HOUR_MS if days <= _BY_THE_HOUR_DAYS else DAY_MS
    return Window(_RANGE, f"{first} to {last}", ended - began, span), ended - 1


def stacks(
    counts: Iterable[UsageHour], window: Window, now: int, by: str = "outcome"
) -> tuple[Sequence[str], Sequence[Stack]]:
    """Returns the names of the series, and every span of a window, oldest first, including those without calls."""
    found: Counter[tuple[int, str]] = Counter()
    totals: Counter[str] = Counter()
    for count in counts:
        hour_ms = milliseconds_of(count.hour)
        name = BREAKDOWNS[by](count)
        found[hour_ms - hour_ms % window.span_ms, name] += count.calls
        totals[name] += count.calls
    names = KINDS if by == "outcome" else _most_frequent(totals)
    if by != "outcome" and len(totals) > len(names):
        named = frozenset(names)
        merged: Counter[tuple[int, str]] = Counter()
        for (at, name), calls in found.items():
            merged[at, name if name in named else OTHERS] += calls
        found, names = merged, (*names, OTHERS)
    label = hour if window.span_ms == HOUR_MS else day
    return names, [Stack(at, label(at), [found[at, name] for name in names]) for at in window.starts(now)]


def routes(counts: Iterable[UsageHour]) -> list[RouteCount]:
    """Returns the counts by route and status, the most frequent first."""
    found: Counter[tuple[str, str, int]] = Counter()
    for count in counts:
        found[count.method, count.route, count.status] += count.calls
    ordered = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return [RouteCount(*name, calls) for name, calls in ordered]


def bars_of(found: Sequence[Stack], window: Window) -> list[Bar]:
    """Returns one bar for each span of a window."""
    tick = slice(11, 16) if window.length_ms <= DAY_MS else slice(5, 10)
    return [Bar(each.label, each.parts, each.label[tick]) for each in found]


def latencies(records: Iterable[UsageRecord]) -> list[Latency]:
    """Returns the latencies of measured calls by route, the slowest by 95th percentile first."""
    took: dict[str, list[float]] = {}
    for record in records:
        if record.HasField("duration_us"):
            took.setdefault(f"{record.method} {record.route}", []).append(record.duration_us / 1000)
    found = []
    for call, times in took.items():
        times.sort()
        # Nearest rank: the duration of an actual call.
        ranks = [times[-(-len(times) * percent // 100) - 1] for percent in (50, 95, 99)]
        found.append(Latency(call, len(times), *ranks))
    return sorted(found, key=lambda each: (-each.p95, each.call))


def _outcome(count: UsageHour) -> str:
    return KINDS[0] if count.status < 400 else KINDS[1] if count.status < 500 else KINDS[2]


BREAKDOWNS: Final[Mapping[str, Callable[[UsageHour], str]]] = {
    "outcome": _outcome,
    "route": lambda count: f"{count.method} {count.route}",
    "status": lambda count: str(count.status),
}
"""Properties that calls may be stacked by."""


class CallsToday(NamedTuple):
    """Calls of a key since 00:00 UTC: all, refused, and a bar for each hour."""

    calls: int = 0
    refused: int = 0
    bars: Markup = Markup("")


async def calls_today(services: UserServices, now: int, key_ids: Sequence[str]) -> Mapping[str, CallsToday]:
    """Returns the calls of up to 200 keys by key id, without keys that made none.

    Raises:
        Refusal: as `UserServices.call`.
    """
    if not key_ids:
        return {}
    began = now - now % DAY_MS
    request = CountCallsByKeyRequest(key_ids=key_ids, since=to_timestamp(began), until=to_timestamp(began + DAY_MS))
    hours: defaultdict[str, Counter[int]] = defaultdict(Counter)
    refused: Counter[str] = Counter()
    for count in (await services.call("UsageService/CountCallsByKey", request)).items:
        hours[count.key_id][(milliseconds_of(count.hour) - began) // HOUR_MS] += count.calls
        refused[count.key_id] += count.refused
    found: defaultdict[str, CallsToday] = defaultdict(CallsToday)
    for each, by_hour in hours.items():
        bars = spark_line([by_hour[hour] for hour in range(24)], f"{by_hour.total():,} calls today, by the hour")
        found[each] = CallsToday(by_hour.total(), refused[each], bars)
    return found


def _most_frequent(totals: Counter[str]) -> tuple[str, ...]:
    return tuple(sorted(name for name, _ in totals.most_common(_SERIES)))
