"""Charts of days with axes: how runs ended, and how long they ran."""

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from console.rendering import formatting, times
from console.rendering.charts import Bar, Scale, bar_chart
from contract.times import milliseconds_of
from workflow_api.v1.run_lists_pb2 import RunDay

OUTCOMES: Final = ("completed", "failed", "cancelled")
"""Parts of a bar of outcomes, from the bottom; each has an outline of its own beside its colour."""

DURATIONS: Final = ("median", "p95")
"""Parts of a bar of durations, from the bottom."""

_UNITS: Final = ((3_600_000, " h"), (60_000, " min"), (1_000, " s"), (1, " ms"))
_TABLE: Final = "the table has the numbers"


def outcomes_chart(days: Sequence[RunDay]) -> Markup:
    """Returns a bar a day with the runs that completed, failed and were cancelled."""
    parts = [(day.ended - day.failed - day.cancelled, day.failed, day.cancelled) for day in days]
    bars = [_bar(day, counts) for day, counts in zip(days, parts, strict=True)]
    completed, failed, cancelled = (sum(counts[place] for counts in parts) for place in range(3))
    title = f"Runs that ended by the day: {completed:,} completed, {failed:,} failed, {cancelled:,} cancelled"
    return bar_chart(bars, OUTCOMES, f"{title}; {_TABLE}")


def durations_chart(days: Sequence[RunDay]) -> Markup:
    """Returns a bar a day, from the median of the durations to their 95th percentile."""
    bars = [
        _bar(day, (median := milliseconds_of(day.median), max(0, milliseconds_of(day.p95) - median))) for day in days
    ]
    longest = max((bar.total for bar in bars), default=0)
    size, suffix = next((unit for unit in _UNITS if longest >= 2 * unit[0]), _UNITS[-1])
    title = f"How long runs took by the day: median, and what 95 % stayed within; {_TABLE}"
    return bar_chart(bars, DURATIONS, title, scale=Scale(size, suffix, _durations))


def succeeded_share(days: Sequence[RunDay]) -> str:
    """Returns the share of runs that completed among those that completed or failed; empty without any."""
    ended = sum(day.ended - day.cancelled for day in days)
    if not ended:
        return ""
    # Rounded down, so that 100 % means that none failed.
    tenths = 1000 * (ended - sum(day.failed for day in days)) // ended
    return f"{tenths / 10:g} %"


def _bar(day: RunDay, parts: Sequence[int]) -> Bar:
    label = times.day(milliseconds_of(day.day))
    return Bar(label, parts, label.partition("-")[2])


def _durations(bar: Bar) -> str:
    return f"median {formatting.duration(bar.parts[0])}, 95 % within {formatting.duration(bar.total)}"
