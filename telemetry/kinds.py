"""Counters, gauges and histograms: counted where things happen, read when somebody asks.

Counting takes less than a microsecond, so that every process counts whether or not anybody asks.
"""

import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

Value = float
Labels = tuple[object, ...]
"""The values of a measure's labels, in the order of their names; from a short list, never what a caller gave."""

LATENCY_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0)
"""Bounds for what somebody waits for."""


class Sample(NamedTuple):
    """One number, as Prometheus names it: what follows the name of its family, and its labels."""

    suffix: str
    labels: Mapping[str, str]
    value: Value


class Family(NamedTuple):
    """All numbers of one name."""

    name: str
    kind: str
    help: str
    samples: Sequence[Sample]


class Described:
    """A name, what it means, and the names of its labels."""

    kind: str

    def __init__(self, name: str, meaning: str, labels: Sequence[str] = ()) -> None:
        self.name = f"workflow_api_{name}"
        self.meaning = meaning
        self.labels = tuple(labels)

    def family(self, samples: Iterable[Sample]) -> Family:
        """Return these numbers under its name."""
        return Family(self.name, self.kind, self.meaning, tuple(samples))

    def of(self, values: Mapping[Labels, Value]) -> Family:
        """Return numbers that somebody else keeps."""
        return self.family(Sample("", self.named(labels), value) for labels, value in values.items())

    def now(self, value: Value) -> Family:
        """Return the one number of a measure without labels."""
        return self.of({(): value})

    def named(self, labels: Labels) -> dict[str, str]:
        """Return values of labels with the names."""
        return dict(zip(self.labels, map(str, labels), strict=True))


class Gauge(Described):
    """A number that goes up and down, read when it is asked for."""

    kind = "gauge"


class Counter(Described):
    """How often something has happened in this process; thread-safe.

    What is rare starts at 0 for the `known` values of its labels: a rate is not told of what begins with 1.
    """

    kind = "counter"

    def __init__(
        self, name: str, meaning: str, labels: Sequence[str] = (), known: Iterable[Labels] | None = None
    ) -> None:
        super().__init__(name, meaning, labels)
        self._lock = threading.Lock()
        self._counts: dict[Labels, Value] = dict.fromkeys(known or (() if labels else ((),)), 0)

    def add(self, *labels: object) -> None:
        """Count one."""
        self.add_many(1, *labels)

    def add_many(self, number: Value, *labels: object) -> None:
        """Count several."""
        with self._lock:
            self._counts[labels] = self._counts.get(labels, 0) + number

    def counted(self) -> Family:
        """Return what was counted since the start of the process."""
        return self.of(self._counts.copy())


class Level(Counter):
    """How many of something there are now in this process: counted up and, with -1, down."""

    kind = "gauge"


class Histogram(Described):
    """How long things took in this process, in seconds; thread-safe."""

    kind = "histogram"

    def __init__(
        self, name: str, meaning: str, labels: Sequence[str] = (), bounds: Sequence[float] = LATENCY_SECONDS
    ) -> None:
        super().__init__(name, meaning, labels)
        self.bounds = tuple(bounds)
        self._names = (*(f"{bound:g}" for bound in bounds), "+Inf")
        self._times = _Times(self.bounds)

    def observe(self, seconds: float, *labels: object) -> None:
        """Count one that took so long."""
        self._times.add(seconds, labels)

    def counted(self) -> Family:
        """Return what was observed since the start of the process."""
        return self.of_times(self._times.taken())

    def of_times(self, times: Mapping[Labels, Sequence[Value]]) -> Family:
        """Return what somebody else has observed: how many fell between each two bounds, and the sum of all."""
        return self.family(sample for labels, series in times.items() for sample in self._samples(labels, series))

    def _samples(self, labels: Labels, series: Sequence[Value]) -> Iterator[Sample]:
        named, up_to = self.named(labels), list(accumulate(series[:-1]))
        for bound, number in zip(self._names, up_to, strict=True):
            yield Sample("_bucket", {**named, "le": bound}, number)
        yield Sample("_count", named, up_to[-1])
        yield Sample("_sum", named, series[-1])


class Timed:
    """What is counted by some labels and timed by the first few of them, at the price of one."""

    def __init__(self, count: Counter, seconds: Histogram) -> None:
        self._count = count
        self._seconds = seconds
        self._times = _Times(seconds.bounds)
        self.observe = self._times.add
        """Takes the seconds and the values of all labels, as a tuple."""

    def counted(self) -> tuple[Family, Family]:
        """Return both, since the start of the process."""
        taken = self._times.taken()
        coarse: dict[Labels, list[Value]] = {}
        for labels, series in taken.items():
            fewer = labels[: len(self._seconds.labels)]
            coarse[fewer] = [a + b for a, b in zip(coarse.get(fewer, [0] * len(series)), series, strict=True)]
        return (
            self._count.of({labels: sum(series[:-1]) for labels, series in taken.items()}),
            self._seconds.of_times(coarse),
        )


class _Times:
    """How many took how long, by their labels."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._lock = threading.Lock()
        self._series: defaultdict[Labels, list[Value]] = defaultdict(lambda: [0] * (len(bounds) + 1) + [0.0])

    def add(self, seconds: float, labels: Labels) -> None:
        place = bisect_left(self._bounds, seconds)
        with self._lock:
            series = self._series[labels]
            series[place] += 1
            series[-1] += seconds

    def taken(self) -> dict[Labels, tuple[Value, ...]]:
        with self._lock:
            return {labels: tuple(series) for labels, series in self._series.items()}
