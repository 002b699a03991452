"""Charts as SVG: usage bars, and the strip of the last days above the run list, with ended runs and durations.

The SVG has attributes but no styles: the pages' Content-Security-Policy allows no inline style.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from markupsafe import Markup

from console.rendering import formatting, times
from contract.times import milliseconds_of
from workflow_api.v1.run_lists_pb2 import RunDay

_HEIGHT: Final = 160
_TOP: Final = 14
_BOTTOM: Final = 20
_LEFT: Final = 48
_PLOT: Final = 432
_GAP: Final = 0.2


_TICKS: Final = 6
_CHAR: Final = 7


class Bar(NamedTuple):
    """One bar: its parts are stacked from the bottom, in the order of the chart's kinds.

    Below the axis stand about six ticks or, where no bar has a tick, the labels of the first and the last bar.
    """

    label: str
    parts: Sequence[int]
    tick: str = ""

    @property
    def total(self) -> int:
        """Height of the bar: the sum of its parts."""
        return sum(self.parts)


class Scale(NamedTuple):
    """A scale: the size of its unit, the unit's suffix in marks, and the text of a bar's parts."""

    size: int
    suffix: str
    text: Callable[[Bar], str]


def bar_chart(
    bars: Sequence[Bar], kinds: Sequence[str], title: str, styles: Sequence[str] = (), scale: Scale | None = None
) -> Markup:
    """Returns a chart of stacked bars.

    Args:
        bars: From left to right; each has one part for each kind.
        kinds: Names of the parts.
        title: Title for screen readers.
        styles: The rectangles of a part have the class `bar-<style>`; absent means the kinds.
        scale: The scale; absent means counts.
    """
    scale = scale or Scale(1, "", partial(_counts, kinds))
    most = scale_top(-(-max((bar.total for bar in bars), default=0) // scale.size)) * scale.size
    width = _LEFT + _PLOT
    height = _TOP + _HEIGHT + _BOTTOM
    inside = Markup("").join([_axis(most, scale), *_bars(bars, scale, most, styles or kinds), *_labels(bars)])
    return Markup(
        '<svg class="bars" viewBox="0 0 {} {}" role="img" aria-label="{}" preserveAspectRatio="xMidYMid meet">{}</svg>'
    ).format(width, height, title, inside)


def spark_line(counts: Sequence[int], title: str) -> Markup:
    """Returns small bars without axes, scaled to the highest; `title` is for screen readers."""
    most = max(counts, default=0) or 1
    bars = Markup("").join(
        Markup('<rect x="{}" y="{:.1f}" width="2.4" height="{:.1f}"/>').format(place * 3, 16 - tall, tall)
        for place, count in enumerate(counts)
        if (tall := 16 * count / most)
    )
    return Markup('<svg class="spark" viewBox="0 0 {} 16" role="img" aria-label="{}">{}</svg>').format(
        max(1, len(counts)) * 3, title, bars
    )


def scale_top(most: int) -> int:
    """Returns the end of the scale: the first of 1, 2, 5, 10, 20, 50 … that is not below the highest bar."""
    step = 1
    while True:
        for factor in (1, 2, 5):
            if most <= factor * step:
                return factor * step
        step *= 10


def _axis(most: int, scale: Scale) -> Markup:
    ground = _TOP + _HEIGHT
    marks = [(0, ground), (most, _TOP)]
    if most % (2 * scale.size) == 0:
        marks.append((most // 2, (ground + _TOP) // 2))
    return Markup("").join(
        Markup('<line class="axis" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(_LEFT, y, _LEFT + _PLOT, y)
        + Markup('<text x="{}" y="{}" text-anchor="end">{}</text>').format(
            _LEFT - 6, y + 4, _short(count // scale.size) + scale.suffix
        )
        for count, y in marks
    )


def _short(number: int) -> str:
    """Returns a mark of the scale with a suffix such as `k`; exact, because marks are round numbers or their halves."""
    for size, letter in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return f"{number / size:,g}{letter}"
    return str(number)


def _bars(bars: Sequence[Bar], scale: Scale, most: int, styles: Sequence[str]) -> list[Markup]:
    slot = _PLOT / max(1, len(bars))
    drawn = []
    for place, bar in enumerate(bars):
        x = _LEFT + slot * (place + _GAP / 2)
        y = float(_TOP + _HEIGHT)
        parts = []
        for style, count in zip(styles, bar.parts, strict=True):
            tall = _HEIGHT * count / most
            y -= tall
            if count:
                parts.append(
                    Markup('<rect class="bar-{}" x="{:.2f}" y="{:.2f}" width="{:.2f}" height="{:.2f}"/>').format(
                        style, x, y, slot * (1 - _GAP), tall
                    )
                )
        if parts:
            text = f"{bar.label}: {scale.text(bar)}"
            drawn.append(Markup("<g><title>{}</title>{}</g>").format(text, Markup("").join(parts)))
    return drawn


def _labels(bars: Sequence[Bar]) -> list[Markup]:
    """Returns the labels below the axis; bars without a label have a title only."""
    if not bars:
        return []
    y = _TOP + _HEIGHT + _BOTTOM - 3
    if bars[0].tick:
        slot = _PLOT / len(bars)
        step = -(-len(bars) // _TICKS)
        # The middle of a bar, unless its tick would stick out.
        margin = _CHAR * len(bars[0].tick) / 2
        return [
            Markup('<text x="{:.1f}" y="{}" text-anchor="middle">{}</text>').format(
                min(_LEFT + slot * (place + 0.5), _LEFT + _PLOT - margin), y, bars[place].tick
            )
            for place in range(0, len(bars), step)
        ]
    ends = [(_LEFT, "start", bars[0].label)]
    if len(bars) > 1:
        ends.append((_LEFT + _PLOT, "end", bars[-1].label))
    return [
        Markup('<text x="{}" y="{}" text-anchor="{}">{}</text>').format(x, y, anchor, label)
        for x, anchor, label in ends
    ]


def _counts(kinds: Sequence[str], bar: Bar) -> str:
    return ", ".join(f"{count:,} {kind}" for kind, count in zip(kinds, bar.parts, strict=True) if count)


_SLOT: Final = 16
_BAR: Final = 12
_STRIP_HEIGHT: Final = 44
_STRIP_GAP: Final = 6
_DURATIONS: Final = 28
_LEAST: Final = 1.5
"""Least height of a bar whose value is not 0."""


class Totals(NamedTuple):
    """Figures of all days together, and of the newest day on which a run began, as text."""

    ended: int
    failed: int
    failed_share: str
    day: str
    median: str
    p95: str


def day_totals(days: Sequence[RunDay]) -> Totals | None:
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


def day_strip(days: Sequence[RunDay]) -> Markup:
    """Returns a bar a day: above the runs that ended, those that failed at the bottom; below the durations.

    Bars of durations rise from the median to the 95th percentile.
    """
    most = max((day.ended for day in days), default=0) or 1
    longest = max((milliseconds_of(day.p95) for day in days), default=0) or 1
    width, height = _SLOT * len(days), _STRIP_HEIGHT + _STRIP_GAP + _DURATIONS
    drawn = Markup("").join(_day(place, day, most, longest) for place, day in enumerate(days))
    return Markup(
        '<svg class="strip" viewBox="0 0 {} {}" role="img" preserveAspectRatio="none" '
        'aria-label="Runs that ended, and how long they took, by the day; the table has the numbers">{}</svg>'
    ).format(width, height, drawn)


def _day(place: int, day: RunDay, most: int, longest: int) -> Markup:
    x = _SLOT * place + (_SLOT - _BAR) / 2
    failed = _tall(day.failed, most, _STRIP_HEIGHT)
    others = _tall(day.ended - day.failed, most, _STRIP_HEIGHT)
    parts = [
        _bar("day-ended", x, _STRIP_HEIGHT - failed - others, others),
        _bar("day-failed", x, _STRIP_HEIGHT - failed, failed),
    ]
    if day.HasField("median"):
        bottom = _STRIP_HEIGHT + _STRIP_GAP + _DURATIONS
        high = _tall(milliseconds_of(day.p95), longest, _DURATIONS)
        low = _tall(milliseconds_of(day.median), longest, _DURATIONS)
        parts += [_bar("day-p95", x, bottom - high, high), _bar("day-median", x, bottom - low, low)]
    # An invisible rectangle shows the title over the whole slot.
    area = Markup('<rect class="day" x="{}" y="0" width="{}" height="{}"/>').format(
        _SLOT * place, _SLOT, _STRIP_HEIGHT + _STRIP_GAP + _DURATIONS
    )
    return Markup("<g><title>{}</title>{}{}</g>").format(_day_description(day), area, Markup("").join(parts))


def _tall(value: int, most: int, height: int) -> float:
    return max(_LEAST, height * value / most) if value else 0.0


def _bar(css_class: str, x: float, y: float, tall: float) -> Markup:
    if not tall:
        return Markup("")
    return Markup('<rect class="{}" x="{:g}" y="{:.1f}" width="{}" height="{:.1f}"/>').format(
        css_class, x, y, _BAR, tall
    )


def _day_description(day: RunDay) -> str:
    text = f"{times.day(milliseconds_of(day.day))}: {day.ended:,} ended, {day.failed:,} failed"
    if not day.HasField("median"):
        return text
    median, p95 = (formatting.duration(milliseconds_of(each)) for each in (day.median, day.p95))
    return f"{text}, median {median}, 95 % within {p95}"
