"""Conditions and last steps where something goes wrong meanwhile: personal data, the database, people, a cancel."""

import asyncio
from typing import Any

import pytest

from backend.runtime.execution import fan_out_sql, segment_run
from backend.runtime.execution import sql as execution_sql
from backend.storage.database import DatabaseUnavailableError
from tests.services.runtime.conftest import RuntimeWorld, agent_step, gate
from tests.services.runtime.test_flows import LAST, flow, statuses

MAIL = """
kind: Agent
name: mail
type: python
code: |
  def run(context):
      return {"mail": "ana@example.com", "files": [1, 2, 3]}
"""


@pytest.mark.parametrize("stages", [["outputs"], ["steps", "outputs"]])
def test_what_an_expression_quotes_in_its_failure_is_swept(world: RuntimeWorld, stages: list[str]) -> None:
    world.apply(MAIL)
    steps = [
        agent_step("first", "mail"),
        {**agent_step("last", "value", "first"), "when": "needs.first[parameters.who]"},
    ]
    policy = {"mode": "redact", "stages": stages}
    who = [{"name": "who", "type": "string", "default": "ana@example.com"}]
    flow(world, "Quoting", steps, pii_policy=policy, parameters=who)
    run = world.until_ended(world.started("Quoting"))
    told = [str(event.data) for event in world.events(run.run_id, page_size=100).events]
    assert run.error_code == "node_failed"
    assert "Key not found" in run.error_message
    assert "ana@example.com" not in run.error_message + "".join(told)


def test_a_database_that_is_away_for_a_moment_fails_no_condition_and_no_item(
    world: RuntimeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away_once(module: Any, name: str) -> None:
        real, times = getattr(module, name), [1]

        def read(*args: Any) -> Any:
            if times:
                times.pop()
                raise DatabaseUnavailableError("away")
            return real(*args)

        monkeypatch.setattr(module, name, read)

    world.apply(MAIL)
    away_once(execution_sql, "run_facts")
    away_once(fan_out_sql, "item")
    each = {**agent_step("each", "value", "first"), "for_each": "needs.first.files", "when": "needs.first.mail != ''"}
    flow(world, "Away", [agent_step("first", "mail"), each])
    assert world.until_ended(world.started("Away")).status == "completed"


def test_a_decision_holds_where_another_step_fails_after_it(world: RuntimeWorld) -> None:
    world.apply(
        """
kind: Agent
name: late
type: python
code: |
  import time
  def run(context):
      context.progress("begun")
      time.sleep(2)
      raise ValueError("too late")
"""
    )
    flow(world, "Decided", [gate("review"), agent_step("late", "late")], **LAST)
    run_id = world.started("Decided")
    world.until_event(run_id, "step.progress")
    world.decide(world.approvals(run_id)["review"], approve=True)
    run = world.until_ended(run_id)
    assert (run.status, run.steps_completed) == ("failed", 3)
    assert statuses(world, run_id)["review"] == "completed"


def test_a_cancel_ends_a_publication_also_behind_last_steps(
    world: RuntimeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def publish(*args: Any, **_: Any) -> list[str]:
        await asyncio.to_thread(world.cancel, args[1])
        wait = args[5]
        await wait(asyncio.get_running_loop().create_future(), 60.0)
        return []

    monkeypatch.setattr(segment_run, "publish", publish)
    world.apply('{"kind": "KnowledgeGraph", "name": "facts", "base_iri": "https://graph.example.org/"}')
    flow(world, "Published", [agent_step("first", "value")], **LAST, publish=[{"knowledge_graph": "facts"}])
    run_id = world.started("Published")
    assert world.until_ended(run_id).status == "cancelled"
    assert statuses(world, run_id) == {"first": "completed", "alarm": "skipped", "clean": "completed"}


def test_always_runs_after_on_failure_also_where_the_result_cannot_be_stored(
    world: RuntimeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def store_result(*_: Any) -> Any:
        raise OSError("the disk is full")

    monkeypatch.setattr(segment_run, "store_result", store_result)
    flow(world, "Unstored", [agent_step("first", "value")], **LAST, result={"step": "first"})
    run = world.until_ended(world.started("Unstored"))
    begun = [event.step for event in world.events(run.run_id, page_size=100).events if event.type == "step.started"]
    assert (run.error_code, begun) == ("invariant_blocked", ["first", "alarm", "clean"])


def test_a_stop_of_the_process_during_always_leaves_a_run_completed(world: RuntimeWorld) -> None:
    flow(world, "Stopped late", [agent_step("first", "value")], always=[{"step": "clean", "agent": "slow"}])
    run_id = world.started("Stopped late")
    world.until_event(run_id, "step.progress")
    world.engine.abort()
    assert world.until_ended(run_id).status == "completed"
    assert statuses(world, run_id)["clean"] == "cancelled"
