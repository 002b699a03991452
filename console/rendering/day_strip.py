"""The strip of the last days above the runs: how many ended, and how long they took, as a small SVG."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from markupsafe import Markup

from console.rendering import formatting, times
from contract.times import milliseconds_of
from workflow_api.v1.run_lists_pb2 import RunDay

_SLOT: Final = 16
_BAR: Final = 12
_HEIGHT: Final = 44
_GAP: Final = 6
_DURATIONS: Final = 28
_LEAST: Final = 1.5
"""Height of a bar of what is not nothing."""


class Totals(NamedTuple):
    """Figures of all days together, and of the newest day on which a run began, as text."""

    ended: int
    failed: int
    failed_share: str
    day: str
    median: str
    p95: str


def totals(days: Sequence[RunDay]) -> Totals | None:
    """Returns the figures of all days; None where no run ended."""
    ended = sum(day.ended for day in days)
    if not ended:
        return None
    failed = sum(day.failed for day in days)
    newest = next((day for day in reversed(days) if day.HasField("median")), RunDay())
    return Totals(
        ended,
        failed,
        f"{100 * failed / ended:.1f}".removesuffix(".0") + " %",
        times.day(milliseconds_of(newest.day)),
        formatting.duration(milliseconds_of(newest.median)) if newest.HasField("median") else "",
        formatting.duration(milliseconds_of(newest.p95)) if newest.HasField("p95") else "",
    )


def strip(days: Sequence[RunDay]) -> Markup:
    """Returns a bar a day: above the runs that ended, those that failed at the bottom; below the durations.

    Bars of durations rise from the median to the 95th percentile.
    """
    most = max((day.ended for day in days), default=0) or 1
    longest = max((milliseconds_of(day.p95) for day in days), default=0) or 1
    width, height = _SLOT * len(days), _HEIGHT + _GAP + _DURATIONS
    drawn = Markup("").join(_day(place, day, most, longest) for place, day in enumerate(days))
    return Markup(
        '<svg class="strip" viewBox="0 0 {} {}" role="img" preserveAspectRatio="none" '
        'aria-label="Runs that ended, and how long they took, by the day; the table has the numbers">{}</svg>'
    ).format(width, height, drawn)


def _day(place: int, day: RunDay, most: int, longest: int) -> Markup:
    x = _SLOT * place + (_SLOT - _BAR) / 2
    failed = _tall(day.failed, most, _HEIGHT)
    others = _tall(day.ended - day.failed, most, _HEIGHT)
    parts = [
        _bar("day-ended", x, _HEIGHT - failed - others, others),
        _bar("day-failed", x, _HEIGHT - failed, failed),
    ]
    if day.HasField("median"):
        bottom = _HEIGHT + _GAP + _DURATIONS
        high = _tall(milliseconds_of(day.p95), longest, _DURATIONS)
        low = _tall(milliseconds_of(day.median), longest, _DURATIONS)
        parts += [_bar("day-p95", x, bottom - high, high), _bar("day-median", x, bottom - low, low)]
    # All of the slot answers to the pointer.
    area = Markup('<rect class="day" x="{}" y="0" width="{}" height="{}"/>').format(
        _SLOT * place, _SLOT, _HEIGHT + _GAP + _DURATIONS
    )
    return Markup("<g><title>{}</title>{}{}</g>").format(_description(day), area, Markup("").join(parts))


def _tall(value: int, most: int, height: int) -> float:
    return max(_LEAST, height * value / most) if value else 0.0


def _bar(css_class: str, x: float, y: float, tall: float) -> Markup:
    if not tall:
        return Markup("")
    return Markup('<rect class="{}" x="{:g}" y="{:.1f}" width="{}" height="{:.1f}"/>').format(
        css_class, x, y, _BAR, tall
    )


def _description(day: RunDay) -> str:
    text = f"{times.day(milliseconds_of(day.day))}: {day.ended:,} ended, {day.failed:,} failed"
    if not day.HasField("median"):
        return text
    median, p95 = (formatting.duration(milliseconds_of(each)) for each in (day.median, day.p95))
    return f"{text}, median {median}, 95 % within {p95}"
