import re
from xml.etree import ElementTree as ET

import pytest

from console.rendering.charts import Bar, bar_chart, scale_top

KINDS = ("answered", "refused")


def heights(svg: str) -> list[float]:
    return [float(height) for height in re.findall(r'<rect [^>]*height="([0-9.]+)"', svg)]


def test_a_bar_at_the_end_of_the_scale_fills_the_height() -> None:
    low, high = heights(bar_chart([Bar("a", (5, 0)), Bar("b", (10, 0))], KINDS, "calls"))
    assert (low, high) == (80, 160)


def test_the_parts_of_a_bar_are_stacked() -> None:
    svg = bar_chart([Bar("a", (5, 5))], KINDS, "calls")
    answered, refused = (
        (float(y), float(tall)) for y, tall in re.findall(r' y="([0-9.]+)" width="[0-9.]+" height="([0-9.]+)"', svg)
    )
    assert refused[0] + refused[1] == answered[0]


@pytest.mark.parametrize("bars", [[], [Bar("a", (0, 0))]])
def test_a_chart_without_data_has_axes_and_no_bars(bars: list[Bar]) -> None:
    svg = bar_chart(bars, KINDS, "calls")
    assert heights(svg) == []
    ET.fromstring(svg)  # noqa: S314 - made here


def test_a_chart_has_an_accessible_label() -> None:
    svg = bar_chart([Bar("10:00", (1200, 3))], KINDS, "1,203 calls")
    assert 'role="img" aria-label="1,203 calls"' in svg
    assert "<title>10:00: 1,200 answered, 3 refused</title>" in svg


def test_about_six_ticks_stand_below_the_axis_and_half_of_the_scale_beside_it() -> None:
    svg = bar_chart([Bar(f"2026-09-24 {hour:02}:00", (hour,), f"{hour:02}:00") for hour in range(24)], ["a"], "calls")
    assert re.findall(r">(\d\d:\d\d)</text>", svg) == ["00:00", "04:00", "08:00", "12:00", "16:00", "20:00"]
    assert [mark in svg for mark in (">0</text>", ">25</text>", ">50</text>")] == [True, True, True]


def test_parts_may_have_styles_of_their_own() -> None:
    assert 'class="bar-1"' in bar_chart([Bar("a", (0, 5))], ["GET /me", "GET /runs"], "calls", ["0", "1"])


def test_texts_in_a_chart_are_escaped() -> None:
    svg = bar_chart([Bar("<script>", (1, 0))], KINDS, '"><script>')
    assert "<script>" not in svg
    ET.fromstring(svg)  # noqa: S314 - made here


def test_a_chart_has_no_inline_style() -> None:
    assert "style" not in bar_chart([Bar("a", (1, 2))], KINDS, "calls")


@pytest.mark.parametrize(("most", "top"), [(0, 1), (1, 1), (2, 2), (3, 5), (9, 10), (11, 20), (200, 200), (201, 500)])
def test_the_scale_ends_at_a_round_number_above_every_bar(most: int, top: int) -> None:
    assert scale_top(most) == top


@pytest.mark.parametrize(("calls", "end"), [(7, "10"), (700, "1k"), (15_000, "20k"), (2_000_000, "2M")])
def test_the_end_of_the_scale_is_short_enough_for_its_margin(calls: int, end: str) -> None:
    assert f">{end}</text>" in bar_chart([Bar("a", (calls, 0))], KINDS, "calls")
