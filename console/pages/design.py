"""Sheet of components: every macro and shared part of the pages in each of its states, from values of its own.

It shows what a change of the style sheets changes, and tests/browser/test_design.py compares it with its record.
"""

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from console.definitions.versions import DifferenceLine, ShownDifference
from console.paging import Rows
from console.rendering import formatting
from console.rendering.charts import Bar, bar_chart, day_strip, spark_line
from console.rendering.dag import Node, draw
from console.rendering.day_charts import DURATIONS, OUTCOMES, durations_chart, outcomes_chart
from console.run.timeline import Span, timeline
from console.visit import View, Visit
from workflow_api.v1.run_lists_pb2 import RunDay
from workflow_api.v1.runs_pb2 import (
    RUN_STATUS_RUNNING,
    STEP_STATUS_COMPLETED,
    STEP_STATUS_RUNNING,
    STEP_STATUS_WAITING_FOR_APPROVAL,
    RunStatus,
    RunSummary,
    Step,
    StepStatus,
)
from workflow_api.v1.users_pb2 import THEME_DARK, THEME_LIGHT, Preferences

NOW: Final = 1_790_244_930_000
"""Time of everything on the sheet, so that it looks alike on every day."""

_THEMES: Final = {"light": THEME_LIGHT, "dark": THEME_DARK}
_DAY_SECONDS: Final = 86_400
_LONG: Final = "quarterly-reconciliation-of-warehouse-deliveries-and-returns"


async def show(visit: Visit) -> View:
    """Shows the sheet in the colours of `theme`, `light` or `dark`, and compact with `density=compact`."""
    theme, compact = visit.query.get("theme", ""), visit.query.get("density") == "compact"
    preferences = Preferences(compact=compact, exact_times=True)
    if theme in _THEMES:
        preferences.theme = _THEMES[theme]
    return View("design.html", {"shown": preferences, "theme_name": theme, "compact": compact, **_samples()})


def _samples() -> Mapping[str, Any]:
    days = [_day(number) for number in range(14)]
    counts = [(number * 7 % 11, number * 3 % 5, number % 3) for number in range(14)]
    bars = [Bar(f"2026-09-{number + 1:02}", parts, f"09-{number + 1:02}") for number, parts in enumerate(counts)]
    return {
        "now": NOW,
        "long": _LONG,
        "run_badges": [formatting.run_badge(value) for value in RunStatus.values()],
        "step_badges": [formatting.step_badge(value) for value in StepStatus.values()],
        "rows": Rows(range(20), 20, 1234, 0, 40),
        "usage": bar_chart(bars, ("answered", "refused", "failed"), "Calls by the day"),
        "usage_kinds": ("answered", "refused", "failed"),
        "outcomes": outcomes_chart(days),
        "outcome_kinds": OUTCOMES,
        "durations": durations_chart(days),
        "duration_kinds": DURATIONS,
        "strip": day_strip(days),
        "spark": spark_line([sum(parts) for parts in counts], "Calls of two weeks"),
        "graph": draw(
            [
                Node("fetch", "Fetch deliveries", (), "agent, completed", "good"),
                Node("check", "Check quantities", ("fetch",), "agent, failed", "bad"),
                Node("ask", "Ask the warehouse", ("fetch",), "approval, waiting", "warn"),
                Node("write", _LONG, ("check", "ask"), "agent, running", "busy"),
                Node("send", "Send", ("write",), "agent, pending", "pending"),
            ]
        ),
        **_timeline(),
        "difference": ShownDifference(
            [
                DifferenceLine("h", "@@ -1,3 +1,3 @@"),
                DifferenceLine("same", " kind: Workflow"),
                DifferenceLine("del", "-name: Reconciliation"),
                DifferenceLine("ins", f"+name: {_LONG}"),
            ],
            added=1,
            removed=1,
            cut=True,
        ),
        "found": [{"name": "name", "reason": "must have 1 to 100 characters"}, {"name": _LONG, "reason": "is unknown"}],
    }


def _day(number: int) -> RunDay:
    day = RunDay(day=_at(number * _DAY_SECONDS), ended=40 + number * 13 % 31, failed=number % 4, cancelled=number % 3)
    day.median.CopyFrom(Duration(seconds=20 + number * 5 % 17))
    day.p95.CopyFrom(Duration(seconds=60 + number * 11 % 43))
    return day


def _timeline() -> dict[str, Any]:
    summary = RunSummary(created_at=_at(0), started_at=_at(2), status=RUN_STATUS_RUNNING)
    steps = [
        Step(step=name, name=title, status=status)
        for name, title, status in (
            ("fetch", "", STEP_STATUS_COMPLETED),
            ("ask", "Ask", STEP_STATUS_WAITING_FOR_APPROVAL),
            ("write", _LONG, STEP_STATUS_RUNNING),
        )
    ]
    spans = {
        "fetch": [
            Span("attempt", _ms(2), _ms(12), 1, "failed"),
            Span("waiting", _ms(12), _ms(15), 1),
            Span("attempt", _ms(15), _ms(25), 2, "completed"),
        ],
        "ask": [Span("waiting", _ms(25), _ms(40))],
        "write": [Span("attempt", _ms(40), None, 1)],
    }
    drawing = timeline(summary, steps, spans, _ms(60))
    lines = [{"step": step, "badge": formatting.step_badge(step.status), "lasted": "10 s"} for step in steps]
    return {"timeline": drawing, "timeline_lines": list(zip([None, *lines], drawing.rows, strict=True))}


def _ms(seconds: int) -> int:
    return NOW + seconds * 1000


def _at(seconds: int) -> Timestamp:
    return Timestamp(seconds=NOW // 1000 + seconds)
