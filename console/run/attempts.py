"""Attempts and waits of the steps of a run, read from the events of their lives."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from console.visit import Services
from contract.times import milliseconds_of
from workflow_api.v1.runs_pb2 import Event, ListRunEventsRequest, ListRunEventsResponse, Segment

_TYPES: Final = ("step.started", "step.completed", "step.failed", "approval.requested", "approval.decided")
_PAGE: Final = 500
_MOST_CALLS: Final = 12
"""How many pages of events are read for one page; of more attempts than these hold, the first are shown."""


@dataclass(slots=True)
class Span:
    """A time in which a step executed, or waited for a person or its next attempt; times in milliseconds.

    `kind` is `attempt` or `waiting`, `ended_at` None while it goes on. `outcome` is `completed`, `failed`, `approved`,
    `rejected`, or empty.
    """

    kind: str
    began_at: int
    ended_at: int | None = None
    attempt: int = 0
    outcome: str = ""
    error_type: str = ""
    message: str = ""


Spans = dict[str, list[Span]]


async def life_events(services: Services, run_id: str, segments: Sequence[Segment]) -> list[Event]:
    """Returns the events that tell when attempts and waits of steps began and ended, of all segments in order."""
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
    """Returns the comments of decisions by approval, swept as all events of the run are."""
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
        elif open_span is not None and open_span.kind == "attempt":
            open_span.outcome = "failed" if event.type == "step.failed" else "completed"
            open_span.error_type, open_span.message = data.get("type", ""), data.get("message", "")
            if event.type == "step.failed" and data.get("retry_at"):
                of_step.append(Span("waiting", at, attempt=open_span.attempt))
    return spans
