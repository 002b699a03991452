"""Counters, gauges and histograms of this process, and the registry of their sources.

Values are recorded where events happen and collected when the metrics are read. Recording takes less than a
microsecond, so every process records whether or not its metrics are served.
"""

import logging
import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from operator import itemgetter
from typing import Final, NamedTuple

Value = float
Labels = tuple[object, ...]
"""Values of a metric's labels, in the order of their names; from a short fixed list, never a value of a caller."""

LATENCY_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0)
"""Default bucket bounds, for durations that a caller waits for."""

MOST_NAMED_SERIES: Final = 5_000
"""Most series of a metric whose labels are names from the deployment."""

OTHER: Final = "other"
"""Label value for all combinations without a series of their own."""

_LOG = logging.getLogger(__name__)


class Sample(NamedTuple):
    """One number in Prometheus's terms: suffix of the family's name, labels and value."""

    suffix: str
    labels: Mapping[str, str]
    value: Value


class Family(NamedTuple):
    """All samples of one metric name."""

    name: str
    kind: str
    help: str
    samples: Sequence[Sample]


class Metric:
    """Base of all metrics: name, help text and label names."""

    kind: str

    def __init__(self, name: str, description: str, labels: Sequence[str] = ()) -> None:
        self.name = f"workflow_api_{name}"
        self.description = description
        self.labels = tuple(labels)

    def family(self, samples: Iterable[Sample]) -> Family:
        """Returns the metric's family with these samples."""
        return Family(self.name, self.kind, self.description, tuple(samples))

    def with_values(self, values: Mapping[Labels, Value]) -> Family:
        """Returns the family of values that are kept elsewhere, by their labels."""
        return self.family(Sample("", self.label_map(labels), value) for labels, value in values.items())

    def with_value(self, value: Value) -> Family:
        """Returns the family of a metric without labels, for a value that is kept elsewhere."""
        return self.with_values({(): value})

    def label_map(self, labels: Labels) -> dict[str, str]:
        """Returns label values by label name."""
        return dict(zip(self.labels, map(str, labels), strict=True))


class Gauge(Metric):
    """A number that goes up and down, read from its owner when metrics are collected."""

    kind = "gauge"


class NamedGauge(Gauge):
    """A gauge whose labels are names from the deployment, such as ids of keys.

    Beyond `MOST_NAMED_SERIES` combinations the smallest values are added up, with `OTHER` as each label.
    """

    def with_values(self, values: Mapping[Labels, Value]) -> Family:
        """Returns the family of values that are kept elsewhere, by their labels."""
        if len(values) > MOST_NAMED_SERIES:
            largest_first = sorted(values.items(), key=itemgetter(1), reverse=True)
            rest = sum(value for _, value in largest_first[MOST_NAMED_SERIES:])
            values = {**dict(largest_first[:MOST_NAMED_SERIES]), (OTHER,) * len(self.labels): rest}
        return super().with_values(values)


class Counter(Metric):
    """Number of events in this process; thread-safe.

    Rare events start at 0 for the `known` values of their labels: Prometheus computes no rate from a series that
    appears with the value 1.
    """

    kind = "counter"

    def __init__(
        self, name: str, description: str, labels: Sequence[str] = (), known: Iterable[Labels] | None = None
    ) -> None:
        super().__init__(name, description, labels)
        self._lock = threading.Lock()
        self._counts: dict[Labels, Value] = dict.fromkeys(known or (() if labels else ((),)), 0)

    def add(self, *labels: object) -> None:
        """Counts one event."""
        self.add_many(1, *labels)

    def add_many(self, number: Value, *labels: object) -> None:
        """Counts several events."""
        with self._lock:
            self._counts[labels] = self._counts.get(labels, 0) + number

    def collect(self) -> Family:
        """Returns the counts since the start of the process."""
        return self.with_values(self._counts.copy())


class NamedCounter(Counter):
    """A counter whose labels are names from the deployment, such as ids of keys.

    Events beyond `MOST_NAMED_SERIES` combinations are counted together, with `OTHER` as each label, so that neither
    this process nor the collector of its metrics grows with the number of names.
    """

    def add_many(self, number: Value, *labels: object) -> None:
        """Counts several events."""
        if labels not in self._counts and len(self._counts) >= MOST_NAMED_SERIES:
            labels = (OTHER,) * len(labels)
        super().add_many(number, *labels)


class UpDownCounter(Counter):
    """Number of things that exist now in this process: `add_many` counts up, and down with -1."""

    kind = "gauge"


class Histogram(Metric):
    """Distribution of durations in this process, in seconds; thread-safe."""

    kind = "histogram"

    def __init__(
        self, name: str, description: str, labels: Sequence[str] = (), bounds: Sequence[float] = LATENCY_SECONDS
    ) -> None:
        super().__init__(name, description, labels)
        self.bounds = tuple(bounds)
        self._bound_names = (*(f"{bound:g}" for bound in bounds), "+Inf")
        self._buckets = _Buckets(self.bounds)

    def observe(self, seconds: float, *labels: object) -> None:
        """Records one duration."""
        self._buckets.add(seconds, labels)

    def collect(self) -> Family:
        """Returns the durations recorded since the start of the process."""
        return self.with_buckets(self._buckets.snapshot())

    def with_buckets(self, buckets: Mapping[Labels, Sequence[Value]]) -> Family:
        """Returns the family of buckets that are kept elsewhere: by labels, the count of each bucket, then the sum."""
        return self.family(sample for labels, series in buckets.items() for sample in self._samples(labels, series))

    def _samples(self, labels: Labels, series: Sequence[Value]) -> Iterator[Sample]:
        named, cumulative = self.label_map(labels), list(accumulate(series[:-1]))
        for bound, number in zip(self._bound_names, cumulative, strict=True):
            yield Sample("_bucket", {**named, "le": bound}, number)
        yield Sample("_count", named, cumulative[-1])
        yield Sample("_sum", named, series[-1])


class TimedCounter:
    """A counter and a histogram, recorded by one call; the histogram has the first labels of the counter."""

    def __init__(self, count: Counter, seconds: Histogram) -> None:
        self._count = count
        self._seconds = seconds
        self._buckets = _Buckets(seconds.bounds)
        self.observe = self._buckets.add
        """Takes the seconds and the values of all labels, as a tuple."""

    def collect(self) -> tuple[Family, Family]:
        """Returns the counts and the durations since the start of the process."""
        snapshot = self._buckets.snapshot()
        merged: dict[Labels, list[Value]] = {}
        for labels, series in snapshot.items():
            fewer = labels[: len(self._seconds.labels)]
            merged[fewer] = [a + b for a, b in zip(merged.get(fewer, [0] * len(series)), series, strict=True)]
        return (
            self._count.with_values({labels: sum(series[:-1]) for labels, series in snapshot.items()}),
            self._seconds.with_buckets(merged),
        )


class _Buckets:
    """Counts of durations by bucket, and their sum, for each combination of labels."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._lock = threading.Lock()
        self._series: defaultdict[Labels, list[Value]] = defaultdict(lambda: [0] * (len(bounds) + 1) + [0.0])

    def add(self, seconds: float, labels: Labels) -> None:
        bucket = bisect_left(self._bounds, seconds)
        with self._lock:
            series = self._series[labels]
            series[bucket] += 1
            series[-1] += seconds

    def snapshot(self) -> dict[Labels, tuple[Value, ...]]:
        with self._lock:
            return {labels: tuple(series) for labels, series in self._series.items()}


MetricSource = Callable[[], Iterable[Family]]
"""Returns the current numbers of one part; called from any thread."""


class MetricsRegistry:
    """The metric sources of the parts that run in this process.

    `url` is the address at which the metrics are served, None if they are not. `ready` returns whether the process
    serves; a part replaces it as soon as it does.
    """

    def __init__(self) -> None:
        self.url: str | None = None
        self.ready: Callable[[], bool] = lambda: False
        self._sources: list[MetricSource] = []

    @contextmanager
    def registered(self, source: MetricSource) -> Iterator[None]:
        """Includes the metrics of `source` while the context lasts."""
        self._sources.append(source)
        try:
            yield
        finally:
            self._sources.remove(source)

    def collect(self) -> list[Family]:
        """Returns the families of all sources, each once; a source that raises is logged and skipped."""
        families: dict[str, Family] = {}
        for source in tuple(self._sources):
            try:
                for family in list(source()):
                    earlier = families.get(family.name)
                    samples = family.samples if earlier is None else (*earlier.samples, *family.samples)
                    families[family.name] = family._replace(samples=samples)
            except Exception:  # noqa: BLE001 - one broken source must not hide the others
                _LOG.exception("A metric source failed")
        return list(families.values())
