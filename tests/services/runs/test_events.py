"""ListRunEvents. (contract 17)"""

import json
from typing import Any

import pytest

from tests.services.calls import RefusedError
from tests.services.runs.world import World
from workflow_api.v1.runs_pb2 import ListRunEventsRequest


def test_a_queued_run_has_no_segment_and_no_events(world: World) -> None:
    answer = world.events(world.started(), after_seq=7)
    assert not answer.HasField("segment_id")
    assert (list(answer.events), list(answer.segments), answer.next_after_seq) == ([], [], 7)


def test_events_count_from_one_without_gaps_and_page(world: World) -> None:
    run_id = world.started()
    segment_id = world.begin(run_id)
    for number in range(4):
        world.write(segment_id, "step.progress", step="first", data={"number": number})
    first = world.events(run_id, page_size=4)
    rest = world.events(run_id, segment=segment_id, after_seq=first.next_after_seq)
    assert [event.seq for event in [*first.events, *rest.events]] == [1, 2, 3, 4, 5, 6]
    assert (first.next_after_seq, rest.next_after_seq) == (4, 6)
    assert [event.type for event in first.events[:2]] == ["segment.started", "run.started"]
    assert json.loads(rest.events[-1].data) == {"number": 3}
    assert rest.events[-1].step == "first"
    assert world.events(run_id, after_seq=6).next_after_seq == 6
    assert world.events(run_id, after_seq=2**40).next_after_seq == 2**40


def test_a_replay_from_zero_gives_the_same_events(world: World) -> None:
    run_id = world.finished()
    assert world.events(run_id) == world.events(run_id)
    assert world.event_types(run_id) == ["segment.started", "run.started", "run.completed", "segment.ended"]


def test_a_page_that_is_read_again_has_what_was_added_and_nothing_erased(world: World) -> None:
    run_id = world.started()
    segment_id = world.begin(run_id)
    for number in range(2):
        assert [event.seq for event in world.events(run_id).events] == list(range(1, 3 + number))
        world.write(segment_id, "step.progress", step="first", data={"number": number})
    finished = world.finished()
    assert world.events(finished).events
    world.erase(finished)
    with pytest.raises(RefusedError) as refused:
        world.events(finished)
    assert refused.value.reason == "not_found"


def test_the_latest_segment_that_has_begun_is_read_by_default(world: World) -> None:
    run_id = world.started("Gated")
    first = world.begin(run_id)
    approvals = world.park(run_id, first, "review", "other")
    world.decide(approvals[0], approve=True)
    waiting = world.events(run_id)
    assert waiting.segment_id == first
    assert [segment.segment_id for segment in waiting.segments] == [first]
    second = world.begin(run_id)
    answer = world.events(run_id)
    assert answer.segment_id == second
    assert [(segment.segment_id, segment.ordinal) for segment in answer.segments] == [(first, 1), (second, 2)]
    assert [event.seq for event in answer.events] == [1, 2]
    assert answer.segments[0].HasField("ended_at")
    assert not answer.segments[1].HasField("ended_at")
    assert answer.segments[0].last_seq == len(world.events(run_id, segment=first).events)


@pytest.mark.parametrize("segment", ["seg_none", "other run's", "queued"])
def test_a_segment_that_is_not_the_runs_or_has_not_begun_is_not_found(world: World, segment: str) -> None:
    run_id = world.started()
    if segment == "other run's":
        segment = world.begin(world.started())
    elif segment == "queued":
        segment = world.begin(run_id)
        run_id = world.started("Gated")
    with pytest.raises(RefusedError) as caught:
        world.events(run_id, segment=segment)
    assert (caught.value.reason, caught.value.message) == ("segment_not_found", "The run has no such segment.")
    request = ListRunEventsRequest(run_id=run_id, segment=segment)
    with pytest.raises(RefusedError) as for_people:
        world.runs("ListRunEvents", request)
    assert for_people.value.message == f"Run {run_id} has no segment {segment}."


def test_people_choose_events_by_type_and_step(world: World) -> None:
    run_id = world.started()
    segment_id = world.begin(run_id)
    for step in ("first", "last", "first"):
        world.write(segment_id, "step.progress", step=step, data={})
        world.write(segment_id, "step.completed", step=step, data={})

    def seqs(**chosen: Any) -> list[int]:
        request = ListRunEventsRequest(run_id=run_id, **chosen)
        return [event.seq for event in world.runs("ListRunEvents", request).events]

    assert seqs(types=["step.completed"]) == [4, 6, 8]
    assert seqs(types=["step.completed"], step="first") == [4, 8]
    assert seqs(step="last") == [5, 6]
    assert seqs(types=["step.completed", "run.started"], after_seq=3, page_size=1) == [4]
