import json
import re
from pathlib import Path
from typing import Any

from backend.services.webhooks.servicer import WebhooksServicer
from backend.settings import WebhookSettings
from tests.services.calls import Caller
from tests.services.runtime.conftest import RuntimeWorld, agent_step, gate, manifest
from tests.support.poll import until
from workflow_api.v1 import runs_pb2, webhooks_pb2


def test_a_run_parks_and_an_approval_starts_a_new_segment(world: RuntimeWorld) -> None:
    run_id = world.run(
        "Gate",
        [agent_step("count", "writer"), gate("review", "count"), agent_step("after", "echo", "review", "count")],
        workflow={"result": {"step": "after"}},
    )
    row = world.until_status(run_id, "waiting_for_approval")
    assert row.approvals_pending == 1
    assert world.board(run_id) == {"count": "completed", "review": "waiting_for_approval", "after": "pending"}
    world.decide(world.approvals(run_id)["review"], True)
    row = world.until_ended(run_id)
    assert row.status == "completed"
    assert world.board(run_id) == dict.fromkeys(("count", "review", "after"), "completed")
    assert (row.steps_completed, row.approvals_pending) == (3, 0)
    assert json.loads(row.result)["needs"]["count"]["words"] == 3, "values live on over segments"
    first, second = world.all_events(run_id)
    assert [event.type for event in first][-2:] == ["approval.requested", "segment.ended"]
    assert [event.type for event in second][:3] == ["segment.started", "approval.decided", "step.started"]
    assert [event.seq for event in second] == list(range(1, len(second) + 1))


def test_a_rejected_approval_fails_the_run_and_names_the_step(world: RuntimeWorld) -> None:
    run_id = world.run("Rejected", [gate("review"), agent_step("after", "echo", "review")])
    world.until_status(run_id, "waiting_for_approval")
    world.decide(world.approvals(run_id)["review"], False)
    row = world.until_ended(run_id)
    assert (row.status, row.error_code) == ("failed", "invariant_blocked")
    assert row.error_message == "The approval of step 'review' was rejected."
    assert world.board(run_id) == {"review": "blocked", "after": "blocked"}


def test_two_gates_at_once_are_decided_one_after_the_other(world: RuntimeWorld) -> None:
    run_id = world.run(
        "Two gates",
        [
            gate("left"),
            gate("right"),
            agent_step("l", "echo", "left"),
            agent_step("r", "echo", "right"),
            agent_step("both", "echo", "l", "r"),
        ],
    )
    row = world.until_status(run_id, "waiting_for_approval")
    assert row.approvals_pending == 2
    waiting = world.approvals(run_id)
    world.decide(waiting["left"], True)
    until(lambda: world.board(run_id)["l"] == "completed", "the left branch")
    world.until_status(run_id, "waiting_for_approval")
    assert list(world.approvals(run_id)) == ["right"]
    world.decide(waiting["right"], True)
    assert world.until_ended(run_id).status == "completed"
    assert len(world.all_events(run_id)) == 3


def test_two_gates_decided_at_the_same_time_complete_the_run(world: RuntimeWorld) -> None:
    run_id = world.run("Both", [gate("left"), gate("right"), agent_step("both", "echo", "left", "right")])
    world.until_status(run_id, "waiting_for_approval")
    for approval_id in world.approvals(run_id).values():
        world.decide(approval_id, True)
    assert world.until_ended(run_id).status == "completed"


def test_a_decision_while_other_steps_run_applies_when_they_are_done(world: RuntimeWorld) -> None:
    run_id = world.run(
        "Busy gate",
        [gate("review"), agent_step("after", "echo", "review"), agent_step("slow", "waiter")],
    )
    until(lambda: world.approvals(run_id), "the approval")
    assert world.status(run_id) == "running"
    world.decide(world.approvals(run_id)["review"], True)
    assert world.until_ended(run_id).status == "completed"
    assert [segment.ordinal for segment in world.events(run_id).segments] == [1, 2]


def test_a_parked_run_executes_nothing_and_survives_a_restart(world: RuntimeWorld, tmp_path: Path) -> None:
    run_id = world.run("Parked", [gate("review"), agent_step("after", "echo", "review")])
    world.until_status(run_id, "waiting_for_approval")
    world.local_runtime.stop()
    again = world.new_runtime(tmp_path / "data")
    again.start()
    try:
        assert world.status(run_id) == "waiting_for_approval"
        world.decide(world.approvals(run_id)["review"], True)
        assert world.until_ended(run_id).status == "completed"
    finally:
        again.stop()


def test_a_queued_run_is_launched_after_a_restart(idle_world: RuntimeWorld) -> None:
    run_id = idle_world.run("Later", [agent_step("main")])
    idle_world.local_runtime.start()
    assert idle_world.until_ended(run_id).status == "completed"


def _asking(world: RuntimeWorld, **fields: Any) -> str:
    """Applies a workflow whose runs first ask for two approvals; returns its name."""
    steps = [gate("left"), gate("right"), agent_step("after", "echo", "left", "right")]
    world.workflows |= world.apply(manifest("Asking", steps, **fields))
    return "Asking"


_DISPATCH_COLUMNS = ("handed_over_at", "hand_overs")


def _left(world: RuntimeWorld, run_id: str) -> dict[str, list[Any]]:
    """What a run left in the tables, without its ids and the time of its dispatch."""
    segment_id = world.events(run_id).segments[0].segment_id
    tables = {
        table: world.dump(f"{table} WHERE {column} = '{value}'")
        for table, column, value in (
            ("runs", "run_id", run_id),
            ("steps", "run_id", run_id),
            ("segments", "run_id", run_id),
            ("events", "segment_id", segment_id),
            ("approvals", "run_id", run_id),
        )
    }
    found = {}
    for table, rows in tables.items():
        kept = [{name: value for name, value in row._asdict().items() if name not in _DISPATCH_COLUMNS} for row in rows]
        texts = sorted(re.sub(r"(run|seg|apr)_[0-9a-z]{26}", r"\1", repr(row)) for row in kept)
        found[table] = texts
    return found


def test_a_run_that_asks_first_waits_from_its_start_as_one_that_was_launched(idle_world: RuntimeWorld) -> None:
    world = idle_world
    workflow = _asking(world)
    launched = world.started(workflow)
    assert world.status(launched) == "queued"
    world.local_runtime.start()
    world.until_status(launched, "waiting_for_approval")
    # On PostgreSQL a start that is decided as its key's last one was is one statement, which begins nothing.
    world.apply(manifest("Other", [gate("later")]))
    answer = world.start(workflow)
    run_id = answer.run.summary.run_id
    assert world.status(run_id) == "waiting_for_approval"
    assert runs_pb2.RunStatus.Name(answer.run.summary.status) == "RUN_STATUS_QUEUED"
    assert _left(world, run_id) == _left(world, launched)
    for approval_id in world.approvals(run_id).values():
        world.decide(approval_id, True)
    assert world.until_ended(run_id).status == "completed"


def test_a_run_with_a_policy_for_personal_data_is_launched_before_it_asks(world: RuntimeWorld) -> None:
    workflow = _asking(world, pii_policy={"mode": "redact"})
    run_id = world.started(workflow)
    assert world.until_status(run_id, "waiting_for_approval").approvals_pending == 2


def test_a_start_that_parks_tells_the_webhooks_of_its_key(world: RuntimeWorld) -> None:
    servicer = WebhooksServicer(world.services, WebhookSettings())
    webhooks = Caller(servicer, webhooks_pb2.DESCRIPTOR.services_by_name["WebhooksService"])
    request = webhooks_pb2.CreateWebhookRequest(key_id=world.key, url="https://example.org/hook")
    webhooks("CreateWebhook", request)
    run_id = world.started(_asking(world))
    told = [(row.event, row.run_status) for row in world.dump("webhook_deliveries") if row.run_id == run_id]
    assert told == [("run.waiting_for_approval", "waiting_for_approval")]


def test_no_run_is_parked_with_its_start_once_the_runtime_has_stopped(world: RuntimeWorld) -> None:
    workflow = _asking(world)
    world.local_runtime.stop()
    assert world.status(world.started(workflow)) == "queued"
