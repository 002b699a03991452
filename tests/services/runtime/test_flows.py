"""Steps that branch by conditions, accept failures, and run after the others, in runs of both databases."""

import json
from typing import Any

import pytest

from tests.services.runtime.conftest import RuntimeWorld, agent_step, gate, manifest
from workflow_api.v1 import runs_pb2

AGENTS = """
kind: Agent
name: value
type: python
code: |
  def run(context):
      return {"total": 5, "region": context.parameters["region"]}
---
kind: Agent
name: fails
type: python
code: |
  def run(context):
      raise ValueError("no luck")
---
kind: Agent
name: seen
type: python
code: |
  def run(context):
      return {"needs": context.needs, "failure": context.failure}
---
kind: Agent
name: slow
type: python
code: |
  import time
  def run(context):
      context.progress("slow")
      time.sleep(60)
"""
REGION = [{"name": "region", "type": "string", "default": "EU"}]


def flow(world: RuntimeWorld, name: str, steps: list[dict[str, Any]], **fields: Any) -> None:
    world.apply(AGENTS)
    world.workflows |= world.apply(manifest(name, steps, **{"parameters": REGION, **fields}))


def statuses(world: RuntimeWorld, run_id: str) -> dict[str, str]:
    return {row.step: row.status for row in world.dump(f"steps WHERE run_id = '{run_id}' ORDER BY position")}


@pytest.mark.parametrize(("region", "status"), [("EU", "completed"), ("US", "skipped")])
def test_a_step_runs_where_its_condition_is_true_and_is_skipped_with_what_needs_it_else(
    world: RuntimeWorld, region: str, status: str
) -> None:
    when = "needs.first.total > 4 && needs.first.region == 'EU' && parameters.region == 'EU' && run.version > 0"
    steps = [
        agent_step("first", "value"),
        {**agent_step("pay", "value", "first"), "when": when},
        agent_step("after", "value", "pay"),
        {**agent_step("tell", "seen", "pay"), "accept": ["completed", "skipped"]},
    ]
    flow(world, "Conditional", steps, result={"step": "tell"})
    run = world.until_ended(world.started("Conditional", parameters={"region": region}))
    assert statuses(world, run.run_id) == {"first": "completed", "pay": status, "after": status, "tell": "completed"}
    skipped = 2 if status == "skipped" else 0
    assert (run.status, run.steps_completed, run.steps_skipped, run.warnings) == (
        "completed",
        4 - skipped,
        skipped,
        "[]",
    )


def test_a_failed_step_that_all_accept_fails_no_run_and_one_that_only_some_accept_does(world: RuntimeWorld) -> None:
    accepting = {**agent_step("tell", "seen", "broken"), "accept": ["completed", "failed"]}
    flow(world, "Accepted", [agent_step("broken", "fails"), accepting], result={"step": "tell"})
    run = world.until_ended(world.started("Accepted"))
    assert (run.status, json.loads(run.warnings)) == ("completed", ["The step 'broken' failed, as accepted."])
    assert json.loads(run.result) == {"needs": {"broken": None}, "failure": None}
    flow(world, "Half", [agent_step("broken", "fails"), accepting, agent_step("not", "value", "broken")])
    run = world.until_ended(world.started("Half"))
    assert (run.status, run.error_code) == ("failed", "node_failed")


def test_an_expression_without_a_value_fails_its_step_with_the_reason(world: RuntimeWorld) -> None:
    steps = [agent_step("first", "value"), {**agent_step("pay", "value", "first"), "when": "needs.first.nothing > 4"}]
    flow(world, "Unjudged", steps)
    run = world.until_ended(world.started("Unjudged"))
    reason = 'The expression `needs.first.nothing > 4` failed: Key not found in map : "nothing"'
    assert (run.status, run.error_message) == ("failed", f"Step 'pay' failed: {reason}")
    assert "step.failed" in world.event_types(run.run_id)


def test_an_approval_is_asked_for_where_its_condition_is_true(world: RuntimeWorld) -> None:
    steps = [agent_step("first", "value"), {**gate("review", "first"), "when": "needs.first.total > 9"}]
    flow(world, "Unasked", steps)
    run = world.until_ended(world.started("Unasked"))
    assert (run.status, statuses(world, run.run_id)["review"]) == ("completed", "skipped")
    steps[1]["when"] = "needs.first.total > 4"
    flow(world, "Asked", steps)
    run_id = world.started("Asked")
    world.until_status(run_id, "waiting_for_approval")
    world.decide(world.approvals(run_id)["review"], approve=True)
    assert world.until_ended(run_id).status == "completed"


LAST = {
    "on_failure": [{"step": "alarm", "agent": "seen"}],
    "always": [{"step": "clean", "agent": "seen"}],
}


def seen(world: RuntimeWorld, run_id: str, step: str) -> Any:
    (row,) = world.dump(f"steps WHERE run_id = '{run_id}' AND step = '{step}'")
    return json.loads(row.value)["failure"]


def test_steps_of_on_failure_and_always_run_after_a_failure_before_the_end_is_recorded(world: RuntimeWorld) -> None:
    flow(world, "Alarm", [agent_step("broken", "fails"), agent_step("slow", "slow")], **LAST)
    run = world.until_ended(world.started("Alarm"))
    failure = {"step": "broken", "code": "node_failed", "message": "Step 'broken' failed: ValueError: no luck"}
    assert (run.status, run.error_code, run.error_message) == ("failed", failure["code"], failure["message"])
    assert statuses(world, run.run_id) == {
        "broken": "failed", "slow": "cancelled", "alarm": "completed", "clean": "completed"
    }  # fmt: skip
    assert (seen(world, run.run_id, "alarm"), seen(world, run.run_id, "clean")) == (failure, failure)
    assert world.event_types(run.run_id)[-6:] == [
        "step.started", "step.completed", "step.started", "step.completed", "run.failed", "segment.ended"
    ]  # fmt: skip


def test_always_runs_after_a_run_that_completes_and_on_failure_is_skipped(world: RuntimeWorld) -> None:
    flow(world, "Clean", [agent_step("first", "value")], **LAST, result={"step": "first"})
    run = world.until_ended(world.started("Clean"))
    assert (run.status, run.steps_completed, run.steps_skipped, run.warnings) == ("completed", 2, 1, "[]")
    assert statuses(world, run.run_id) == {"first": "completed", "alarm": "skipped", "clean": "completed"}
    assert seen(world, run.run_id, "clean") is None


def test_the_failure_of_a_last_step_is_a_warning(world: RuntimeWorld) -> None:
    flow(world, "Unclean", [agent_step("first", "value")], always=[{"step": "clean", "agent": "fails"}])
    run = world.until_ended(world.started("Unclean"))
    assert (run.status, json.loads(run.warnings)) == ("completed", ["The step 'clean' of always failed."])
    flow(world, "Unheard", [agent_step("first", "fails")], on_failure=[{"step": "alarm", "agent": "fails"}])
    run = world.until_ended(world.started("Unheard"))
    assert (run.status, json.loads(run.warnings)) == ("failed", ["The step 'alarm' of on_failure failed."])


def test_always_runs_after_a_cancel_of_a_running_run(world: RuntimeWorld) -> None:
    flow(world, "Stopped", [agent_step("slow", "slow")], **LAST)
    run_id = world.started("Stopped")
    world.until_event(run_id, "step.progress")
    world.cancel(run_id)
    assert world.until_ended(run_id).status == "cancelled"
    assert statuses(world, run_id) == {"slow": "cancelled", "alarm": "skipped", "clean": "completed"}


def test_always_runs_after_a_cancel_of_a_run_that_waits_for_a_person(world: RuntimeWorld) -> None:
    flow(world, "Parked", [agent_step("first", "value"), gate("review", "first")], **LAST)
    run_id = world.started("Parked")
    world.until_status(run_id, "waiting_for_approval")
    world.cancel(run_id)
    assert world.until_ended(run_id).status == "cancelled"
    board = {"first": "completed", "review": "cancelled", "alarm": "skipped", "clean": "completed"}
    assert (statuses(world, run_id), world.approvals(run_id)) == (board, {})


def test_last_steps_run_after_a_rejection(world: RuntimeWorld) -> None:
    flow(world, "Rejected", [agent_step("first", "value"), gate("review", "first")], **LAST)
    run_id = world.started("Rejected")
    world.until_status(run_id, "waiting_for_approval")
    world.decide(world.approvals(run_id)["review"], approve=False)
    assert world.until_ended(run_id).error_code == "invariant_blocked"
    failure = {"step": "review", "code": "invariant_blocked", "message": "The approval of step 'review' was rejected."}
    assert seen(world, run_id, "alarm") == seen(world, run_id, "clean") == failure


@pytest.mark.parametrize("parked", [False, True])
def test_last_steps_run_after_the_time_limit(world: RuntimeWorld, parked: bool) -> None:
    steps = [agent_step("first", "value"), gate("last", "first") if parked else agent_step("last", "slow", "first")]
    flow(world, "Late", steps, **LAST, settings={"max_run_hours": 0.25})
    run_id = world.started("Late")
    if parked:
        world.until_status(run_id, "waiting_for_approval")
    else:
        world.until_event(run_id, "step.progress")
    world.clock.advance(hours=1)
    world.local_runtime.executor.reap_now()
    run = world.until_ended(run_id)
    assert (run.status, run.error_code) == ("failed", "wall_clock_limit_reached")
    assert seen(world, run_id, "alarm") == {"step": None, "code": run.error_code, "message": run.error_message}
    assert statuses(world, run_id)["clean"] == "completed"


def test_no_last_step_runs_where_no_step_began(world: RuntimeWorld) -> None:
    flow(world, "Unbegun", [{**agent_step("first", "value"), "when": "parameters.region == 'US'"}], **LAST)
    run = world.until_ended(world.started("Unbegun"))
    assert (run.status, set(statuses(world, run.run_id).values())) == ("completed", {"skipped"})
    flow(world, "Misjudged", [{**agent_step("first", "value"), "when": "1 / 0 == 1"}], **LAST)
    run = world.until_ended(world.started("Misjudged"))
    assert statuses(world, run.run_id) == {"first": "failed", "alarm": "cancelled", "clean": "cancelled"}


def test_no_last_step_runs_after_a_run_is_orphaned(world: RuntimeWorld) -> None:
    flow(world, "Orphan", [agent_step("slow", "slow")], **LAST)
    run_id = world.started("Orphan")
    world.until_event(run_id, "step.progress")
    world.engine.abort()
    assert world.until_ended(run_id).error_code == "orphaned"
    assert set(statuses(world, run_id).values()) == {"cancelled"}


def test_a_last_step_that_is_interrupted_leaves_the_outcome_that_was_decided(world: RuntimeWorld) -> None:
    flow(world, "Cut", [agent_step("broken", "fails")], always=[{"step": "clean", "agent": "slow"}])
    run_id = world.started("Cut")
    world.until_event(run_id, "step.progress")
    world.engine.abort()
    assert world.until_ended(run_id).error_code == "node_failed"


def test_an_approval_has_a_summary_of_what_it_needs_and_fails_where_that_has_no_value(world: RuntimeWorld) -> None:
    asked = gate("review", "first")
    asked["approval"]["summary"] = "'Total: ' + string(needs.first.total)"
    flow(world, "Summarised", [agent_step("first", "value"), asked])
    run_id = world.started("Summarised")
    world.until_status(run_id, "waiting_for_approval")
    (pending,) = world.runs("ListPendingApprovals", runs_pb2.ListPendingApprovalsRequest(run_id=run_id)).items
    assert pending.summary == "Total: 5"
    asked["approval"]["summary"] = "needs.first.nothing"
    flow(world, "Unsummarised", [agent_step("first", "value"), asked])
    run = world.until_ended(world.started("Unsummarised"))
    assert (run.status, run.error_code, statuses(world, run.run_id)["review"]) == ("failed", "node_failed", "failed")


def test_the_summary_of_an_approval_is_swept(world: RuntimeWorld) -> None:
    asked = gate("review")
    asked["approval"]["summary"] = "'Write to jane.roe@example.com about ' + parameters.region"
    flow(world, "Swept summary", [asked], pii_policy={"mode": "redact", "stages": ["steps"]})
    run_id = world.started("Swept summary")
    world.until_status(run_id, "waiting_for_approval")
    (pending,) = world.runs("ListPendingApprovals", runs_pb2.ListPendingApprovalsRequest(run_id=run_id)).items
    assert "jane.roe" not in pending.summary
    assert pending.summary.endswith("about EU")
