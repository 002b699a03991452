"""Transitions and the closing of runs. (contract 13)"""

import json

import pytest
from sqlalchemy import delete

from backend.services.runs import lifecycle
from backend.services.runs.lifecycle import SegmentEndedError, SegmentLease
from backend.storage.database import Tx
from backend.storage.statements import Command
from backend.storage.tables.segments import events
from tests.services.runs.world import World
from workflow_api.v1 import runs_pb2


def test_a_segment_is_taken_once(world: World) -> None:
    run_id = world.started()
    segment_id = world.begin(run_id, "one")

    def again(tx: Tx) -> bool:
        return lifecycle.begin_segment(tx, segment_id, "two", world.clock())

    assert not world.services.database.write(again)
    assert world.count("segments", "owner = 'one'") == 1


def test_the_segment_of_a_cancelled_run_is_not_taken(world: World) -> None:
    run_id = world.started()
    world.cancel(run_id)
    assert world.count("segments", "state = 'queued'") == 0
    assert world.get(run_id).summary.status == runs_pb2.RUN_STATUS_CANCELLED


def test_a_run_closes_once(world: World) -> None:
    run_id = world.started()
    world.begin(run_id)
    assert world.close(run_id, "failed", error_code="node_failed", error_message="x")
    before = world.get(run_id)
    world.clock.advance(seconds=1)
    for status in ("completed", "failed", "cancelled"):
        assert not world.close(run_id, status)
    assert world.get(run_id) == before


def test_only_the_owner_of_the_running_segment_closes_with_it(world: World) -> None:
    run_id = world.started()
    segment_id = world.begin(run_id, "mine")
    assert not world.close(run_id, lease=SegmentLease(segment_id, "theirs"))
    assert world.close(run_id, lease=SegmentLease(segment_id, "mine"))


@pytest.mark.parametrize("begun", [False, True])
def test_a_run_that_does_not_run_cannot_complete(world: World, begun: bool) -> None:
    run_id = world.started("Gated")
    if begun:
        world.park(run_id, world.begin(run_id), "review")
    assert not world.close(run_id, "completed")
    assert world.close(run_id, "failed", error_code="orphaned", error_message="x")


def test_a_status_that_is_not_final_does_not_close(world: World) -> None:
    run_id = world.started()
    with pytest.raises(ValueError, match="not a final status"):
        world.close(run_id, "running")


def test_a_run_never_taken_up_fails_without_events(world: World) -> None:
    run_id = world.started()
    assert world.close(run_id, "failed", error_code="launch_failed", error_message="No worker took it up.")
    run = world.get(run_id)
    assert run.error.code == "launch_failed"
    assert not run.summary.HasField("started_at")
    answer = world.events(run_id)
    assert (answer.HasField("segment_id"), list(answer.segments)) == (False, [])


def test_nothing_is_recorded_for_a_segment_that_ended(world: World) -> None:
    """And the rest of the late change is undone with it."""
    run_id = world.started()
    segment_id = world.begin(run_id)
    world.close(run_id, "cancelled")

    def late(tx: Tx) -> None:
        lifecycle.queue_segment(tx, run_id, world.clock())
        lifecycle.append_event(tx, segment_id, "step.completed", world.clock(), step="first")

    with pytest.raises(SegmentEndedError):
        world.services.database.write(late)
    assert world.event_types(run_id)[-1] == "segment.ended"
    assert world.count("segments") == 1


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_closing_promotes_what_completed_steps_left(world: World, status: str) -> None:
    run_id = world.started()
    segment_id = world.begin(run_id)
    second = world.output(run_id, "first/b.txt", b"bb")
    first = world.output(run_id, "first/a.txt", b"a")
    result = world.output(run_id, "result.json", b"{}", step=None)
    assert world.get(run_id).summary.counts.outputs == 0
    world.clock.advance(seconds=1)
    world.close(run_id, status, lease=SegmentLease(segment_id, "worker"))
    assert world.get(run_id).summary.counts.outputs == 3
    written = world.events(run_id).events
    assert [event.type for event in written[2:]] == ["output.promoted"] * 3 + [f"run.{status}", "segment.ended"]
    assert [json.loads(event.data)["output_id"] for event in written[2:5]] == [first, second, result]
    assert json.loads(written[2].data) == {"output_id": first, "path": "first/a.txt", "size_bytes": 1}
    assert (written[2].step, written[4].HasField("step")) == ("first", False)
    assert world.count("outputs", f"created_at = {world.clock.now}") == 3


@pytest.mark.parametrize(
    ("status", "fields"),
    [("cancelled", {}), ("failed", {"error_code": "orphaned", "error_message": "Its worker is gone."})],
    ids=["cancelled", "orphaned"],
)
def test_each_output_is_promoted_once(world: World, status: str, fields: dict[str, str]) -> None:
    """Also of a run that ends between the promotion and its close, which reads no event to know of it."""
    run_id = world.started()
    segment_id = world.begin(run_id)
    world.output(run_id, "first/a.txt", b"a")
    world.output(run_id, "first/b.txt", b"b")
    promoted_at = world.clock.now
    world.services.database.write(lambda tx: lifecycle.promote_outputs(tx, run_id, segment_id, promoted_at))
    assert world.get(run_id).summary.counts.outputs == 2
    assert world.event_types(run_id)[2:] == ["output.promoted"] * 2
    delete_promotions = Command(delete(events).where(events.c.type == "output.promoted"))
    world.services.database.write(lambda tx: tx.run(delete_promotions))
    world.clock.advance(seconds=1)
    assert world.close(run_id, status, **fields)
    assert world.event_types(run_id)[2:] == [f"run.{status}", "segment.ended"]
    assert world.count("outputs", f"created_at = {promoted_at}") == 2


def test_closing_cancels_unfinished_steps_and_withdraws_approvals(world: World) -> None:
    run_id = world.started("Gated")
    segment_id = world.begin(run_id)
    approval = world.ask(run_id, segment_id, "review")
    world.decide(approval, approve=True)
    world.ask(run_id, segment_id, "other")
    world.close(run_id, "failed", error_code="wall_clock_limit_reached", error_message="x")
    steps = world.steps(run_id)
    assert {name: step.status for name, step in steps.items()} == {
        "review": runs_pb2.STEP_STATUS_COMPLETED,
        "other": runs_pb2.STEP_STATUS_CANCELLED,
        "after": runs_pb2.STEP_STATUS_CANCELLED,
    }
    assert steps["other"].HasField("finished_at")
    assert not steps["after"].HasField("finished_at")
    assert world.count("approvals", "state = 'withdrawn'") == 1


def test_a_failure_is_in_the_event_log(world: World) -> None:
    run_id = world.started()
    world.begin(run_id)
    world.close(run_id, "failed", error_code="node_failed", error_message="boom")
    failed = world.events(run_id).events[-2]
    assert (failed.type, json.loads(failed.data)) == ("run.failed", {"code": "node_failed", "message": "boom"})


def test_a_policy_keeps_the_outputs_closed_when_the_run_ends(world: World) -> None:
    assert world.row(world.finished("Swept")).redaction_state == "pending"
    assert world.row(world.finished("Plain")).redaction_state == "none"


def test_the_started_time_is_that_of_the_first_segment(world: World) -> None:
    run_id = world.started("Gated")
    approvals = world.park(run_id, world.begin(run_id), "review")
    began = world.get(run_id).summary.started_at
    world.clock.advance(seconds=9)
    world.decide(approvals[0], approve=True)
    world.begin(run_id)
    assert world.get(run_id).summary.started_at == began
