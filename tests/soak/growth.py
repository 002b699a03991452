"""The verdict on series of samples: which of them grow more than what was done explains."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from tests.soak.samples import Sample

# Of a series so many points are compared, each with each.
_POINTS: Final = 60
_MB: Final = 1_000_000


@dataclass(frozen=True)
class Bound:
    """How much a series may grow over the second half, beyond what is explained.

    Attributes:
        least: As much in any case: what is under way at one time differs.
        share: Or this share of its value in the middle, where that is more.
        per: What may be left behind of each unit of other series, as `{"runs started": 1}`.
    """

    least: float
    share: float
    per: Mapping[str, float]


@dataclass(frozen=True)
class Growth:
    """A series: `grown` is the slope of its second half by that half's length, without what is explained."""

    name: str
    begin: float
    middle: float
    end: float
    grown: float
    allowed: float

    @property
    def unexplained(self) -> bool:
        return self.grown > self.allowed

    def __str__(self) -> str:
        verdict = "GROWS" if self.unexplained else "ok"
        return "| " + " | ".join(
            (self.name, *map(_number, (self.begin, self.middle, self.end, self.grown, self.allowed)), verdict, "")
        )


HEAD: Final = "| what | begin | middle | end | grown | allowed | |\n|---|---|---|---|---|---|---|"


def judge(times: Sequence[float], samples: Sequence[Sample], bounds: Mapping[str, Bound]) -> list[Growth]:
    """Judges each series that has a bound, by the second half of the samples; a value that is missing counts as 0.

    A bound is for the series of that name, or whose name ends with it: the longest name counts.
    """
    half = len(times) // 2
    found = []
    for name in sorted({name for sample in samples for name in sample}):
        fits = [end for end in bounds if name.endswith(end)]
        if not fits:
            continue
        bound = bounds[max(fits, key=len)]
        values = [sample.get(name, 0) for sample in samples]
        left = [
            value - sum(each * sample[other] for other, each in bound.per.items())
            for value, sample in zip(values, samples, strict=True)
        ]
        grown = _slope(times[half:], left[half:]) * (times[-1] - times[half])
        middle = statistics.median(values[half - half // 4 : half + 1])
        allowed = max(bound.least, bound.share * middle)
        found.append(Growth(name, values[0], middle, values[-1], grown, allowed))
    return found


def _slope(times: Sequence[float], values: Sequence[float]) -> float:
    """The median of the slopes between all pairs of points (Theil and Sen), which single peaks do not change."""
    every = max(1, len(times) // _POINTS)
    points = list(zip(times[::every], values[::every], strict=True))
    return statistics.median((b[1] - a[1]) / (b[0] - a[0]) for a, b in combinations(points, 2))


def _number(value: float) -> str:
    return f"{value / _MB:,.1f} M" if abs(value) >= _MB else f"{value:,.0f}"
