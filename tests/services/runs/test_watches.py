"""WatchRun and WatchRunEvents, and the announcements that wake them. (contract 14.16, 17.14)"""

from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from backend.services.run_changes import Subscription
from tests.services.calls import RefusedError, Stream
from tests.services.runs.world import World
from tests.support.poll import until
from workflow_api.v1 import runs_pb2


def watched(world: World, run_id: str, key: str | None = None) -> Stream:
    return world.runs.stream("WatchRun", runs_pb2.WatchRunRequest(run_id=run_id), key)


def events(world: World, run_id: str, **fields: Any) -> Stream:
    return world.runs.stream("WatchRunEvents", runs_pb2.WatchRunEventsRequest(run_id=run_id, **fields))


def announced(world: World, run_id: str, change: Callable[[], object]) -> bool:
    subscription = world.changes.subscribe(run_id)
    try:
        change()
        return bool(subscription.take().run_ids)
    finally:
        subscription.close()


def test_a_watched_run_comes_now_and_after_each_change_until_it_has_finished(world: World) -> None:
    run_id = world.started()
    stream = watched(world, run_id)
    assert stream.take().summary.status == runs_pb2.RUN_STATUS_QUEUED
    world.begin(run_id)
    assert stream.take().summary.status == runs_pb2.RUN_STATUS_RUNNING
    world.close(run_id)
    last = stream.take()
    assert last.started_by == "caller"
    # Internal services alone learn it.
    last.ClearField("started_by")
    assert last == world.get(run_id)
    assert last.summary.status == runs_pb2.RUN_STATUS_COMPLETED
    assert stream.rest() == []


def test_an_event_alone_is_no_new_state_of_a_watched_run(world: World) -> None:
    run_id = world.started()
    segment_id = world.begin(run_id)
    stream = watched(world, run_id)
    assert stream.take().summary.status == runs_pb2.RUN_STATUS_RUNNING
    world.write(segment_id, "step.progress", step="first")
    world.close(run_id)
    assert stream.take().summary.status == runs_pb2.RUN_STATUS_COMPLETED


def test_watched_events_go_over_all_segments_to_the_end(world: World) -> None:
    run_id = world.started("Gated")
    stream = events(world, run_id)
    first = world.begin(run_id)
    assert [stream.take().event.type for _ in range(2)] == ["segment.started", "run.started"]
    approvals = world.park(run_id, first, "review", "other")
    taken = [stream.take() for _ in range(3)]
    assert [(one.segment_id, one.event.type) for one in taken][-1] == (first, "segment.ended")
    world.decide(approvals[0], approve=True)
    second = world.begin(run_id)
    world.close(run_id)
    rest = [stream.take() for _ in world.events(run_id, segment=second).events]
    assert {one.segment_id for one in rest} == {second}
    assert [one.event.seq for one in rest] == list(range(1, len(rest) + 1))
    assert stream.rest() == []


def test_watched_events_go_on_after_the_last_one_received(world: World) -> None:
    run_id = world.started("Gated")
    first = world.begin(run_id)
    approvals = world.park(run_id, first, "review", "other")
    world.decide(approvals[0], approve=True)
    second = world.begin(run_id)
    world.close(run_id)
    whole = events(world, run_id).rest()
    assert {one.segment_id for one in whole} == {first, second}
    for index, one in enumerate(whole):
        after = events(world, run_id, segment=one.segment_id, after_seq=one.event.seq).rest()
        assert after == whole[index + 1 :]


def test_the_end_of_the_backend_ends_watches_as_unavailable(world: World) -> None:
    streams = [watched(world, world.started()), events(world, world.started())]
    streams[0].take()
    world.changes.end()
    for stream in streams:
        with pytest.raises(RefusedError) as refused:
            stream.rest()
        assert refused.value.reason == "runtime_unreachable"


def test_a_caller_that_goes_leaves_no_subscription(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    remove, removed = world.changes.remove, list[Subscription]()

    def recorded(subscription: Subscription) -> None:
        remove(subscription)
        removed.append(subscription)

    monkeypatch.setattr(world.changes, "remove", recorded)
    stream = watched(world, world.started())
    stream.take()
    assert removed == []
    stream.cancel()
    until(lambda: len(removed) == 1, "the end of the subscription")


@pytest.mark.parametrize("method", ["WatchRun", "WatchRunEvents"])
def test_a_run_that_is_not_there_cannot_be_watched(world: World, method: str) -> None:
    request = getattr(runs_pb2, f"{method}Request")(run_id="run_none")
    with pytest.raises(RefusedError) as refused:
        world.runs.stream(method, request).rest()
    assert refused.value.reason == "run_not_found"


@pytest.mark.parametrize("method", ["GetRun", "ListRunEvents"])
def test_a_service_itself_never_waits(world: World, method: str) -> None:
    request = getattr(runs_pb2, f"{method}Request")(run_id=world.started(), wait=Duration(seconds=1))
    with pytest.raises(RefusedError) as refused:
        world.runs(method, request)
    assert refused.value.problems.keys() == {"wait_seconds"}


def test_every_change_that_callers_see_is_announced(world: World) -> None:
    run_id = world.started("Gated")
    segments: list[str] = []
    assert announced(world, run_id, lambda: segments.append(world.begin(run_id)))
    assert announced(world, run_id, lambda: world.write(segments[0], "step.progress"))
    approvals: list[str] = []
    assert announced(world, run_id, lambda: approvals.extend(world.park(run_id, segments[0], "review", "other")))
    assert announced(world, run_id, lambda: world.decide(approvals[0], approve=True))
    assert announced(world, run_id, lambda: world.cancel(run_id))
    assert announced(world, run_id, lambda: world.erase(run_id))


def test_nothing_is_announced_of_a_change_that_fails(world: World) -> None:
    run_id = world.started()
    subscription = world.changes.subscribe()
    with pytest.raises(ValueError, match="final"):
        world.close(run_id, "running")
    with pytest.raises(RefusedError):
        world.erase(run_id)
    assert subscription.take() == (set(), False)
