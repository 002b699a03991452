"""Charts of days: how runs ended, and how long they ran."""

import re
from xml.etree import ElementTree as ET

import pytest

from console.rendering import times
from console.rendering.day_charts import durations_chart, outcomes_chart, succeeded_share
from contract.times import to_duration, to_timestamp
from workflow_api.v1.run_lists_pb2 import RunDay

FIRST = times.start_of_day("2026-09-20")


def day(
    number: int, ended: int = 0, failed: int = 0, cancelled: int = 0, taken: tuple[int, int] | None = None
) -> RunDay:
    message = RunDay(day=to_timestamp(FIRST + number * times.DAY_MS), ended=ended, failed=failed, cancelled=cancelled)
    if taken:
        message.median.CopyFrom(to_duration(taken[0]))
        message.p95.CopyFrom(to_duration(taken[1]))
    return message


def test_a_bar_says_how_the_runs_of_its_day_ended_and_the_chart_how_all_did() -> None:
    svg = outcomes_chart([day(0, 10, 2, 1), day(1), day(2, 5)])
    assert "<title>2026-09-20: 7 completed, 2 failed, 1 cancelled</title>" in svg
    assert "12 completed, 2 failed, 1 cancelled; the table has the numbers" in svg
    assert {"bar-completed", "bar-failed", "bar-cancelled"} == set(re.findall(r'class="(bar-[a-z]+)"', svg))
    assert ">09-20</text>" in svg
    ET.fromstring(svg)  # noqa: S314 - made here


@pytest.mark.parametrize(
    ("p95", "marks"),
    [
        (900, ["0 ms", "1k ms", "500 ms"]),
        (4_000, ["0 s", "5 s"]),
        (19_000, ["0 s", "20 s", "10 s"]),
        (600_000, ["0 min", "10 min", "5 min"]),
        (9_000_000, ["0 h", "5 h"]),
    ],
)
def test_durations_have_a_scale_of_round_numbers_in_a_fitting_unit(p95: int, marks: list[str]) -> None:
    svg = durations_chart([day(0, 4, taken=(p95 // 4, p95))])
    assert re.findall(r'text-anchor="end">([^<]*)</text>', svg) == marks


def test_a_bar_of_durations_says_median_and_percentile() -> None:
    svg = durations_chart([day(0, 4, taken=(1_500, 61_000)), day(1)])
    assert "<title>2026-09-20: median 1.5 s, 95 % within 1 min 1 s</title>" in svg
    assert svg.count("<title>") == 1


def test_only_days_without_a_failure_succeed_wholly() -> None:
    assert succeeded_share([day(0, 3, cancelled=3)]) == ""
    assert succeeded_share([day(0, 9, cancelled=4), day(1, 1)]) == "100 %"
    assert succeeded_share([day(0, 100_000, failed=1)]) == "99.9 %"
