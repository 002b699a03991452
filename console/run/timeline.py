"""Timeline of a run: attempts and waits of its steps, read from events, as bars along one time axis."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from console.rendering import formatting
from console.rendering.dag import shortened
from console.visit import UserServices
from contract.times import milliseconds_of
from workflow_api.v1.runs_pb2 import Event, ListRunEventsRequest, ListRunEventsResponse, RunSummary, Segment, Step

_TYPES: Final = (
    "step.started",
    "step.completed",
    "step.failed",
    "approval.requested",
    "approval.expired",
    "approval.decided",
)
_PAGE: Final = 500
_MOST_CALLS: Final = 12
"""Most pages of events read for one view; further attempts are not shown."""

LABEL_WIDTH: Final = 190
BAR_WIDTH: Final = 720
ROW_HEIGHT: Final = 26
AXIS_HEIGHT: Final = 22

_LEAST_WIDTH: Final = 2.0
_TICKS: Final = 4
_MAX_LABEL_CELLS: Final = 24
_CLASSES: Final[Mapping[str, str]] = {
    "completed": "good",
    "failed": "bad",
    "approved": "good",
    "rejected": "bad",
    "expired": "bad",
}


@dataclass(slots=True)
class Span:
    """A time span in which a step executed, or waited for a person or its next attempt; times in milliseconds.

    `kind` is `attempt` or `waiting`, `ended_at` None while it goes on. `outcome` is `completed`, `failed`, `approved`,
    `rejected`, `expired`, or empty.
    """

    kind: str
    began_at: int
    ended_at: int | None = None
    attempt: int = 0
    outcome: str = ""
    error_type: str = ""
    message: str = ""


Spans = dict[str, list[Span]]


async def life_events(services: UserServices, run_id: str, segments: Sequence[Segment]) -> list[Event]:
    """Returns the events at which attempts and waits of steps begin and end, of all segments in order."""
    found: list[Event] = []
    calls = 0
    for segment in segments:
        after_seq = 0
        while after_seq < segment.last_seq and calls < _MOST_CALLS:
            calls += 1
            request = ListRunEventsRequest(
                run_id=run_id, segment=segment.segment_id, after_seq=after_seq, page_size=_PAGE, types=_TYPES
            )
            read: ListRunEventsResponse = await services.call("RunsService/ListRunEvents", request)
            found += [event for event in read.events if event.type in _TYPES]
            after_seq = read.next_after_seq if len(read.events) == _PAGE else segment.last_seq
    return found


def comments_of(events: Sequence[Event]) -> dict[str, str]:
    """Returns the comments of decisions by approval, redacted like all events of the run."""
    decided = [json.loads(event.data or "{}") for event in events if event.type == "approval.decided"]
    return {data["approval_id"]: data["comment"] for data in decided if data.get("comment") and "approval_id" in data}


def spans_of(events: Sequence[Event]) -> Spans:
    """Returns the attempts and waits of each step, in order."""
    spans: Spans = {}
    for event in events:
        at, data = milliseconds_of(event.at), json.loads(event.data or "{}")
        of_step = spans.setdefault(event.step, [])
        open_span = of_step[-1] if of_step and of_step[-1].ended_at is None else None
        if open_span is not None:
            open_span.ended_at = at
        if event.type == "step.started":
            of_step.append(Span("attempt", at, attempt=data.get("attempt", 1)))
        elif event.type == "approval.requested":
            of_step.append(Span("waiting", at))
        elif open_span is not None and event.type == "approval.decided":
            open_span.outcome, open_span.message = data.get("decision", ""), data.get("comment") or ""
        elif open_span is not None and event.type == "approval.expired":
            # The decision that a rejection by it is comes after.
            open_span.outcome = "rejected" if data.get("on_deadline") == "reject" else "expired"
            open_span.message = "deadline"
        elif open_span is not None and open_span.kind == "attempt":
            open_span.outcome = "failed" if event.type == "step.failed" else "completed"
            open_span.error_type, open_span.message = data.get("type", ""), data.get("message", "")
            if event.type == "step.failed" and data.get("retry_at"):
                of_step.append(Span("waiting", at, attempt=open_span.attempt))
    return spans


@dataclass(frozen=True, slots=True)
class TimelinePart:
    """A segment of a bar: an attempt, or a wait."""

    x: float
    width: float
    css_class: str
    title: str


@dataclass(frozen=True, slots=True)
class Row:
    """A step's bar."""

    step: str
    label: str
    title: str
    y: int
    parts: Sequence[TimelinePart]


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark of the time axis."""

    x: float
    text: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """All bars and marks, and the size of the area in pixels."""

    width: int
    height: int
    rows: Sequence[Row]
    ticks: Sequence[Tick]


def timeline(summary: RunSummary, steps: Sequence[Step], spans: Mapping[str, Sequence[Span]], now: int) -> Timeline:
    """Returns the timeline of a run from its creation to its end, or until now, in milliseconds."""
    begin = milliseconds_of(summary.created_at)
    end = max(milliseconds_of(summary.finished_at) if summary.HasField("finished_at") else now, begin + 1)
    scale = _Scale(begin, end)
    rows = [_run_row(summary, scale)]
    for number, step in enumerate(steps, 1):
        title = step.name or step.step
        parts = [_part(span, scale) for span in spans.get(step.step) or _whole(step)]
        rows.append(Row(step.step, shortened(title, _MAX_LABEL_CELLS), title, AXIS_HEIGHT + number * ROW_HEIGHT, parts))
    ticks = [
        Tick(scale.x(begin + (end - begin) * n // _TICKS), formatting.duration((end - begin) * n // _TICKS))
        for n in range(_TICKS + 1)
    ]
    return Timeline(LABEL_WIDTH + BAR_WIDTH + 60, AXIS_HEIGHT + len(rows) * ROW_HEIGHT + 4, rows, ticks)


@dataclass(frozen=True, slots=True)
class _Scale:
    begin: int
    end: int

    def x(self, at: int) -> float:
        share = (min(max(at, self.begin), self.end) - self.begin) / (self.end - self.begin)
        return round(LABEL_WIDTH + share * BAR_WIDTH, 1)

    def part(self, began_at: int, ended_at: int | None, css_class: str, words: str) -> TimelinePart:
        until = self.end if ended_at is None else ended_at
        x = self.x(began_at)
        width = max(_LEAST_WIDTH, round(self.x(until) - x, 1))
        return TimelinePart(x, width, css_class, f"{words}, {formatting.duration(max(0, until - began_at))}")


def _run_row(summary: RunSummary, scale: _Scale) -> Row:
    started = milliseconds_of(summary.started_at) if summary.HasField("started_at") else scale.end
    parts = [scale.part(scale.begin, started, "waiting", "queued")]
    if summary.HasField("started_at"):
        badge = formatting.run_badge(summary.status)
        parts.append(scale.part(started, scale.end, badge.kind, badge.text))
    return Row("", "The run", "The run", AXIS_HEIGHT, parts)


def _part(span: Span, scale: _Scale) -> TimelinePart:
    if span.kind == "waiting":
        words = "waiting for the next attempt" if span.attempt else "waiting for a person"
        return scale.part(span.began_at, span.ended_at, "waiting", words)
    running = span.ended_at is None
    words = f"attempt {span.attempt}, {span.outcome or ('running' if running else 'ended')}"
    return scale.part(span.began_at, span.ended_at, _CLASSES.get(span.outcome, "busy" if running else ""), words)


def _whole(step: Step) -> Sequence[Span]:
    """Returns a step as one span, used where its events were not read."""
    if not step.HasField("started_at"):
        return ()
    ended = milliseconds_of(step.finished_at) if step.HasField("finished_at") else None
    outcome = formatting.step_badge(step.status).text
    return (Span("attempt", milliseconds_of(step.started_at), ended, max(1, step.attempt), outcome),)
