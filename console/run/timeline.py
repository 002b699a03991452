"""Timeline of a run: attempts and waits of its steps, read from events, as bars along one time axis."""

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from console.rendering import formatting
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

WIDTH: Final = 100.0
"""Width of the time axis: all places on it are percentages, so that it fits every screen."""

FOLD_WIDTH: Final = 6.0
_LEAST_WIDTH: Final = 0.4
_TICKS: Final = 4
_LEAST_FOLD_MS: Final = 1_000
_LEAST_FOLD_SHARE: Final = 10
"""One in so many parts of the whole time is the shortest wait that is folded, so that there are few folds."""
_MOSTLY_WAITING: Final = 0.8
"""Share of waits from which on a timeline is folded unless somebody asks for its full length."""
_APART: Final = 17.0
"""Least distance of two texts on the axis."""
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
    """A step's bar; the run's own has no step."""

    step: str
    parts: Sequence[TimelinePart]


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark of the time axis; `anchor` is the `text-anchor` of its text."""

    x: float
    text: str
    anchor: str = "middle"


@dataclass(frozen=True, slots=True)
class Fold:
    """A wait that is drawn shorter than it was: how long it was, and how long after the run's creation it began."""

    x: float
    lasted: str
    after: str
    labelled: bool


@dataclass(frozen=True, slots=True)
class Timeline:
    """All bars, marks and folds; `foldable` is the number of waits that are or could be folded."""

    rows: Sequence[Row]
    ticks: Sequence[Tick]
    folds: Sequence[Fold]
    foldable: int


def timeline(
    summary: RunSummary,
    steps: Sequence[Step],
    spans: Mapping[str, Sequence[Span]],
    now: int,
    folded: bool | None = None,
) -> Timeline:
    """Returns the timeline of a run from its creation to its end, or until now, in milliseconds.

    `folded` shortens long times in which no step executes; by default where such times are most of all.
    """
    begin = milliseconds_of(summary.created_at)
    end = max(milliseconds_of(summary.finished_at) if summary.HasField("finished_at") else now, begin + 1)
    drawn = {step.step: spans.get(step.step) or _whole(step) for step in steps}
    waits = _long_waits(begin, end, [span for each in (spans, drawn) for of in each.values() for span in of])
    if folded is None:
        folded = sum(until - since for since, until in waits) >= (end - begin) * _MOSTLY_WAITING
    scale = _Scale(begin, end, waits if folded else ())
    rows = [_run_row(summary, scale)]
    rows += [Row(step.step, [_part(span, scale) for span in drawn[step.step]]) for step in steps]
    folds = _folds(scale)
    return Timeline(rows, _ticks(scale, folds), folds, len(waits))


class _Scale:
    """Places of times on the axis: in proportion, but for waits that are folded, which have one width each."""

    def __init__(self, begin: int, end: int, folded: Sequence[tuple[int, int]]) -> None:
        self.begin, self.end, self.folded = begin, end, folded
        shown = end - begin - sum(until - since for since, until in folded)
        share = (WIDTH - FOLD_WIDTH * len(folded)) / max(shown, 1)
        self._times, self._places = [begin], [0.0]
        for since, until in folded:
            before = self._places[-1] + (since - self._times[-1]) * share
            self._times += [since, until]
            self._places += [before, before + FOLD_WIDTH]
        self._times.append(end)
        self._places.append(WIDTH)

    def x(self, at: int) -> float:
        at = min(max(at, self.begin), self.end)
        after = min(max(bisect_right(self._times, at), 1), len(self._times) - 1)
        since, until = self._times[after - 1], self._times[after]
        left, right = self._places[after - 1], self._places[after]
        return round(left + (right - left) * ((at - since) / (until - since) if until > since else 1), 2)

    def part(self, began_at: int, ended_at: int | None, css_class: str, words: str) -> TimelinePart:
        until = self.end if ended_at is None else ended_at
        x = min(self.x(began_at), WIDTH - _LEAST_WIDTH)
        width = max(_LEAST_WIDTH, round(self.x(until) - x, 2))
        return TimelinePart(x, width, css_class, f"{words}, {formatting.duration(max(0, until - began_at))}")


def _long_waits(begin: int, end: int, spans: Sequence[Span]) -> list[tuple[int, int]]:
    """Returns the long times in which no attempt executes, in order; none where no attempt has begun."""
    attempts = sorted(
        (span.began_at, end if span.ended_at is None else span.ended_at) for span in spans if span.kind == "attempt"
    )
    least = max(_LEAST_FOLD_MS, (end - begin) // _LEAST_FOLD_SHARE)
    found: list[tuple[int, int]] = []
    idle_since = begin
    for began_at, ended_at in [*attempts, (end, end)] if attempts else ():
        if began_at - idle_since >= least:
            found.append((idle_since, began_at))
        idle_since = max(idle_since, ended_at)
    return found


def _folds(scale: _Scale) -> list[Fold]:
    folds: list[Fold] = []
    labelled_until = _APART / 2
    for since, until in scale.folded:
        x = scale.x(since)
        middle = x + FOLD_WIDTH / 2
        labelled = labelled_until <= middle <= WIDTH - _APART
        labelled_until = middle + _APART if labelled else labelled_until
        folds.append(Fold(x, formatting.duration(until - since), formatting.duration(since - scale.begin), labelled))
    return folds


def _ticks(scale: _Scale, folds: Sequence[Fold]) -> list[Tick]:
    """Returns the marks: at equal distances, and with folds the lengths of these, and of the whole at the end."""
    whole = scale.end - scale.begin
    if folds:
        between = [Tick(fold.x + FOLD_WIDTH / 2, fold.lasted) for fold in folds if fold.labelled]
    else:
        times = [whole * n // _TICKS for n in range(1, _TICKS)]
        between = [Tick(scale.x(scale.begin + at), formatting.duration(at)) for at in times]
    return [Tick(0, "0 ms", "start"), *between, Tick(WIDTH, formatting.duration(whole), "end")]


def _run_row(summary: RunSummary, scale: _Scale) -> Row:
    started = milliseconds_of(summary.started_at) if summary.HasField("started_at") else scale.end
    parts = [scale.part(scale.begin, started, "waiting", "queued")]
    if summary.HasField("started_at"):
        badge = formatting.run_badge(summary.status)
        parts.append(scale.part(started, scale.end, badge.kind, badge.text))
    return Row("", parts)


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
