import json
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from console.run.timeline import BAR_WIDTH, LABEL_WIDTH, spans_of, timeline
from workflow_api.v1.runs_pb2 import RUN_STATUS_COMPLETED, Event, RunSummary, Step


def at(seconds: int) -> Timestamp:
    return Timestamp(seconds=1_000 + seconds)


def event(seconds: int, kind: str, step: str, **data: Any) -> Event:
    return Event(type=kind, at=at(seconds), step=step, data=json.dumps(data))


LIFE = [
    event(10, "step.started", "a", attempt=1),
    event(20, "step.failed", "a", attempt=1, type="ValueError", message="no", retry_at="later"),
    event(40, "step.started", "a", attempt=2),
    event(50, "step.completed", "a", outputs=0),
    event(50, "approval.requested", "b", title="Good?"),
    event(90, "approval.decided", "b", decision="approved", comment=None),
    event(90, "step.started", "c", attempt=1),
]


def test_attempts_and_waits_are_spans_in_order() -> None:
    spans = spans_of(LIFE)
    assert [(s.kind, s.attempt, s.outcome, (s.ended_at or 0) - s.began_at) for s in spans["a"]] == [
        ("attempt", 1, "failed", 10_000),
        ("waiting", 1, "", 20_000),
        ("attempt", 2, "completed", 10_000),
    ]
    assert [(s.kind, s.outcome) for s in spans["b"]] == [("waiting", "approved")]
    assert spans["c"][0].ended_at is None


def test_bars_span_the_run_from_its_creation_to_its_end() -> None:
    summary = RunSummary(status=RUN_STATUS_COMPLETED, created_at=at(0), started_at=at(10), finished_at=at(100))
    steps = [Step(step=name, name=name.upper()) for name in "abcd"]
    drawn = timeline(summary, steps, spans_of(LIFE), 0)
    run, a, b, c, d = drawn.rows
    assert [part.title for part in run.parts] == ["queued, 10 s", "completed, 1 min 30 s"]
    assert [part.css_class for part in a.parts] == ["bad", "waiting", "good"]
    assert (a.parts[0].x, a.parts[0].width) == (LABEL_WIDTH + BAR_WIDTH / 10, BAR_WIDTH / 10)
    assert b.parts[0].title == "waiting for a person, 40 s"
    assert c.parts[0].x + c.parts[0].width == LABEL_WIDTH + BAR_WIDTH
    assert d.parts == []
    assert [tick.text for tick in drawn.ticks] == ["0 ms", "25 s", "50 s", "1 min 15 s", "1 min 40 s"]


def test_a_step_without_events_is_drawn_from_its_times() -> None:
    summary = RunSummary(created_at=at(0), started_at=at(0))
    step = Step(step="a", started_at=at(0), finished_at=at(50))
    (part,) = timeline(summary, [step], {}, (1_000 + 100) * 1_000).rows[1].parts
    assert part.width == BAR_WIDTH / 2
