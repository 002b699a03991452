import json
from itertools import pairwise
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from console.run.timeline import FOLD_WIDTH, WIDTH, Timeline, spans_of, timeline
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
    drawn = timeline(summary, steps, spans_of(LIFE), 0, folded=False)
    run, a, b, c, d = drawn.rows
    assert [part.title for part in run.parts] == ["queued, 10 s", "completed, 1 min 30 s"]
    assert [part.css_class for part in a.parts] == ["bad", "waiting", "good"]
    assert (a.parts[0].x, a.parts[0].width) == (WIDTH / 10, WIDTH / 10)
    assert b.parts[0].title == "waiting for a person, 40 s"
    assert c.parts[0].x + c.parts[0].width == WIDTH
    assert d.parts == []
    assert [tick.text for tick in drawn.ticks] == ["0 ms", "25 s", "50 s", "1 min 15 s", "1 min 40 s"]
    assert (drawn.folds, drawn.foldable) == ([], 3)


def test_a_step_without_events_is_drawn_from_its_times() -> None:
    summary = RunSummary(created_at=at(0), started_at=at(0))
    step = Step(step="a", started_at=at(0), finished_at=at(50))
    (part,) = timeline(summary, [step], {}, (1_000 + 100) * 1_000, folded=False).rows[1].parts
    assert part.width == WIDTH / 2


def waited(seconds: int, folded: bool | None) -> Timeline:
    """A run whose two steps take a second each, with a wait between them."""
    end = seconds + 2
    life = [
        event(0, "step.started", "a", attempt=1),
        event(1, "step.completed", "a"),
        event(1, "approval.requested", "b"),
        event(end - 1, "approval.decided", "b", decision="approved"),
        event(end - 1, "step.started", "c", attempt=1),
        event(end, "step.completed", "c"),
    ]
    summary = RunSummary(status=RUN_STATUS_COMPLETED, created_at=at(0), started_at=at(0), finished_at=at(end))
    return timeline(summary, [Step(step=name) for name in "abc"], spans_of(life), 0, folded)


def test_a_folded_wait_leaves_its_room_to_what_executed_and_says_how_long_it_was() -> None:
    drawn = waited(300, folded=True)
    (fold,) = drawn.folds
    assert (fold.lasted, fold.after) == ("5 min 0 s", "1 s")
    assert "5 min 0 s" in [tick.text for tick in drawn.ticks]
    _, a, b, c = drawn.rows
    assert a.parts[0].width == c.parts[0].width == (WIDTH - FOLD_WIDTH) / 2
    assert (b.parts[0].x, b.parts[0].width) == (fold.x, FOLD_WIDTH)
    assert waited(300, folded=False).rows[1].parts[0].width < 1


@pytest.mark.parametrize(("seconds", "folds"), [(300, 1), (9, 1), (7, 0), (0, 0)])
def test_waits_are_folded_by_themselves_where_they_are_most_of_the_time(seconds: int, folds: int) -> None:
    assert len(waited(seconds, folded=None).folds) == folds


def test_nothing_is_folded_before_a_step_has_begun() -> None:
    drawn = timeline(RunSummary(created_at=at(0)), [Step(step="a")], {}, 2_000_000, folded=True)
    assert (drawn.folds, drawn.foldable) == ([], 0)


def test_bars_stay_in_order_on_the_axis_however_many_waits_are_folded() -> None:
    life = []
    for n in range(12):
        life += [event(n * 100, "step.started", f"s{n}", attempt=1), event(n * 100 + 1, "step.completed", f"s{n}")]
    summary = RunSummary(created_at=at(0), started_at=at(0), finished_at=at(1_200))
    steps = [Step(step=f"s{n}") for n in range(12)]
    places = [row.parts[0] for row in timeline(summary, steps, spans_of(life), 0, folded=True).rows[1:]]
    assert all(one.x + one.width <= other.x + 0.1 for one, other in pairwise(places))
    assert all(part.x >= 0 and part.x + part.width <= WIDTH for part in places)
