"""CancelRun. (contract 19)"""

import pytest

from tests.services.calls import RefusedError
from tests.services.runs.world import World
from workflow_api.v1 import runs_pb2


def test_a_queued_run_is_cancelled_at_once_and_never_had_events(world: World) -> None:
    run_id = world.started()
    answer = world.cancel(run_id)
    assert answer.status == runs_pb2.RUN_STATUS_CANCELLED
    assert answer.cancel_requested_at.ToMilliseconds() == world.clock.now
    run = world.get(run_id).summary
    assert run.status == runs_pb2.RUN_STATUS_CANCELLED
    assert not run.HasField("started_at")
    assert not run.HasField("duration")
    assert not world.events(run_id).HasField("segment_id")
    assert {step.status for step in world.steps(run_id).values()} == {runs_pb2.STEP_STATUS_CANCELLED}
    assert world.count("segments", "state <> 'ended'") == 0
    assert world.runtime.cancelled == []


def test_a_parked_run_is_cancelled_in_a_closing_segment(world: World) -> None:
    run_id = world.started("Gated")
    first = world.begin(run_id)
    world.park(run_id, first, "review")
    world.cancel(run_id)
    assert world.event_types(run_id, segment=first)[-1] == "segment.ended"
    assert world.event_types(run_id) == ["segment.started", "run.cancelled", "segment.ended"]
    closing = world.events(run_id).segments[-1]
    assert (closing.ordinal, closing.last_seq) == (2, 3)
    assert closing.HasField("ended_at")
    assert world.count("approvals", "state = 'withdrawn'") == 1
    assert world.get(run_id).summary.counts.approvals_pending == 0


def test_a_queued_continuation_serves_as_the_closing_segment(world: World) -> None:
    run_id = world.started("Gated")
    approvals = world.park(run_id, world.begin(run_id), "review")
    world.decide(approvals[0], approve=True)
    world.cancel(run_id)
    assert world.event_types(run_id) == ["segment.started", "approval.decided", "run.cancelled", "segment.ended"]
    assert world.count("segments", f"run_id = '{run_id}'") == 2


def test_cancelling_a_running_run_notifies_the_runtime(world: World) -> None:
    run_id = world.started()
    world.begin(run_id)
    answer = world.cancel(run_id, reason="too slow")
    assert answer.status == runs_pb2.RUN_STATUS_RUNNING
    assert world.runtime.cancelled == [run_id]
    assert world.get(run_id).summary.status == runs_pb2.RUN_STATUS_RUNNING


def test_a_second_cancel_is_accepted_with_the_time_of_the_first(world: World) -> None:
    run_id = world.started()
    world.begin(run_id)
    first = world.cancel(run_id, reason="first")
    world.clock.advance(seconds=5)
    assert world.cancel(run_id, reason="second") == first
    assert world.row(run_id).cancel_reason == "first"


def test_a_run_that_was_to_park_is_cancelled_instead(world: World) -> None:
    run_id = world.started("Gated")
    segment_id = world.begin(run_id)
    world.cancel(run_id)
    world.park(run_id, segment_id, "review")
    assert world.get(run_id).summary.status == runs_pb2.RUN_STATUS_CANCELLED
    assert world.event_types(run_id)[-2:] == ["run.cancelled", "segment.ended"]


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_a_finished_run_is_already_terminal(world: World, status: str) -> None:
    run_id = world.started()
    world.begin(run_id)
    world.close(run_id, status)
    with pytest.raises(RefusedError) as caught:
        world.cancel(run_id)
    assert caught.value.reason == "already_terminal"
    assert world.row(run_id).cancel_requested_at is None


def test_a_reason_of_501_characters_is_refused(world: World) -> None:
    run_id = world.started()
    with pytest.raises(RefusedError) as caught:
        world.cancel(run_id, reason="x" * 501)
    assert set(caught.value.problems) == {"reason"}
    assert world.cancel(run_id, reason="x" * 500).status == runs_pb2.RUN_STATUS_CANCELLED


def test_a_cancel_is_audited(world: World) -> None:
    run_id = world.started()
    world.cancel(run_id, reason="why")
    where = f"target = '{run_id}' AND action = 'run.cancel_requested' AND actor = 'key:{world.key}'"
    assert world.count("audit_records", where) == 1
