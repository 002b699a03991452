import json
from typing import Any

from backend.common.clock import to_text
from tests.services.runtime.conftest import RuntimeWorld, agent_step
from tests.support.poll import until
from workflow_api.v1 import runs_pb2


def failures(world: RuntimeWorld, run_id: str) -> list[dict[str, Any]]:
    return [json.loads(event.data) for event in world.events(run_id).events if event.type == "step.failed"]


def test_a_step_that_fails_is_tried_again_until_it_succeeds(world: RuntimeWorld) -> None:
    retry = {"attempts": 3, "backoff_seconds": 0.2, "multiplier": 2}
    run_id = world.run("Third", [agent_step("luck", "third", retry=retry)], workflow={"result": {"step": "luck"}})
    row = world.until_ended(run_id)
    assert (row.status, row.result, row.steps_failed, row.steps_completed) == ("completed", "3", 0, 1)
    assert world.event_types(run_id)[2:8] == [
        "step.started",
        "step.failed",
        "step.started",
        "step.failed",
        "step.started",
        "step.completed",
    ]
    now = world.clock()
    assert failures(world, run_id) == [
        {
            "code": "node_failed",
            "type": "ValueError",
            "message": f"ValueError: not at attempt {attempt}",
            "attempt": attempt,
            "retry_at": to_text(now + wait),
        }
        for attempt, wait in ((1, 200), (2, 400))
    ]
    step = world.steps(run_id)["luck"]
    assert (step.status, step.attempt, step.HasField("error")) == (runs_pb2.STEP_STATUS_COMPLETED, 3, False)
    assert row.outputs_count == 2, "only the last attempt's file, and the result"
    for attempt in (1, 2, 3):
        log = world.objects.open_range(f"runs/{run_id}/logs/luck-{attempt}", 0, 9)
        assert b"".join(log) == f"attempt {attempt}".encode()


def test_a_step_out_of_attempts_fails_for_good(world: RuntimeWorld) -> None:
    retry = {"attempts": 2, "backoff_seconds": 0}
    run_id = world.run("Spent", [agent_step("bad", "fail", retry=retry)])
    row = world.until_ended(run_id)
    assert (row.status, row.error_code, row.steps_failed) == ("failed", "node_failed", 1)
    assert [(one["attempt"], one["retry_at"] is None) for one in failures(world, run_id)] == [(1, False), (2, True)]
    assert world.steps(run_id)["bad"].attempt == 2


def test_a_back_off_holds_no_slot_and_a_cancel_ends_it_at_once(world: RuntimeWorld) -> None:
    steps = [agent_step("bad", "fail", retry={"attempts": 2, "backoff_seconds": 300}), agent_step("good")]
    run_id = world.run("Waits", steps, workflow={"settings": {"parallel_steps": 1}})
    until(lambda: world.board(run_id) == {"bad": "pending", "good": "completed"}, "the other step")
    assert world.status(run_id) == "running"
    session = world.local_runtime.executor.sessions.current
    assert session is not None
    assert session.slots.in_use == 0
    world.cancel(run_id)
    assert world.until_ended(run_id).status == "cancelled"
    assert world.board(run_id) == {"bad": "cancelled", "good": "completed"}


def test_an_optional_step_warns_once_after_its_last_attempt(world: RuntimeWorld) -> None:
    retry = {"attempts": 3, "backoff_seconds": 0}
    run_id = world.run("Optional", [agent_step("extra", "fail", optional=True, retry=retry), agent_step("main")])
    row = world.until_ended(run_id)
    assert row.status == "completed"
    assert world.event_types(run_id).count("warning") == 1
    assert world.event_types(run_id).count("step.failed") == 3


def test_a_step_is_retried_after_the_failures_that_its_retry_names(world: RuntimeWorld) -> None:
    retry = {"attempts": 3, "backoff_seconds": 0}
    steps = [
        agent_step("named", "fail", optional=True, retry={**retry, "on": ["ValueError"]}),
        agent_step("other", "fail", optional=True, retry={**retry, "on": ["TimeoutError"]}),
        agent_step("excluded", "fail", optional=True, retry={**retry, "not_on": ["ValueError"]}),
    ]
    run_id = world.run("Named failures", steps)
    world.until_ended(run_id)
    attempts = {name: step.attempt for name, step in world.steps(run_id).items()}
    assert attempts == {"named": 3, "other": 1, "excluded": 1}


def test_a_step_has_its_own_time_where_that_is_shorter_than_its_environments(world: RuntimeWorld) -> None:
    run_id = world.run("Short", [agent_step("slow", "sleeper", timeout_seconds=1)])
    row = world.until_ended(run_id)
    assert row.error_message == "Step 'slow' failed: the step ran longer than its 1 seconds"
    (failed,) = [event for event in world.events(run_id).events if event.type == "step.failed"]
    assert json.loads(failed.data)["type"] == "TimeLimit"


def test_a_step_sees_its_run_and_a_key_that_all_its_attempts_share(world: RuntimeWorld) -> None:
    code = """
def run(context):
    key = f"{context.run_id} {context.step} {context.client_reference} {context.idempotency_key}"
    context.progress(key)
    if context.attempt == 1:
        raise ValueError("again")
"""
    world.apply(json.dumps({"kind": "Agent", "name": "keyed", "type": "python", "code": code}))
    step = agent_step("pay", "keyed", retry={"attempts": 2, "backoff_seconds": 0})
    run_id = world.run("Keyed", [step], client_reference="order 7")
    assert world.until_ended(run_id).status == "completed"
    told = [json.loads(event.data)["message"] for event in world.events(run_id).events if event.type == "step.progress"]
    assert told == [f"{run_id} pay order 7 {run_id}/pay"] * 2
