"""A run executes its version with the agents of that version (contract 23.11)."""

import json
from typing import Any

import pytest

from tests.services.runtime.conftest import RuntimeWorld, agent_step, gate

CODE = "def run(context):\n    return {result}\n"


def agent(result: int) -> str:
    return json.dumps({"kind": "Agent", "name": "number", "type": "python", "code": CODE.format(result=result)})


def result_of(world: RuntimeWorld, run_id: str) -> Any:
    row = world.until_ended(run_id)
    assert row.status == "completed", row.error_message
    return json.loads(row.result)


@pytest.mark.parametrize(("version", "result"), [(1, 1), (2, 2), (None, 2)])
def test_a_run_of_a_version_runs_the_agents_of_that_version(
    world: RuntimeWorld, version: int | None, result: int
) -> None:
    world.apply(agent(1))
    asked = {} if version is None else {"version": version}
    world.run("Number", [agent_step("n", "number")], workflow={"result": {"step": "n"}})
    world.apply(agent(2))
    run_id = world.started("Number", **asked)
    assert (world.row(run_id).version, result_of(world, run_id)) == (version or 2, result)


def test_a_run_continues_after_an_approval_with_the_agents_of_its_version(world: RuntimeWorld) -> None:
    world.apply(agent(1))
    run_id = world.run(
        "Number after a gate", [gate("review"), agent_step("n", "number", "review")], workflow={"result": {"step": "n"}}
    )
    world.until_status(run_id, "waiting_for_approval")
    world.apply(agent(2))
    world.decide(world.approvals(run_id)["review"], True)
    assert result_of(world, run_id) == 1
    again = world.started("Number after a gate")
    world.until_status(again, "waiting_for_approval")
    world.decide(world.approvals(again)["review"], True)
    assert (world.row(again).version, result_of(world, again)) == (2, 2)


def test_a_queued_run_runs_the_agents_that_it_was_started_with(idle_world: RuntimeWorld) -> None:
    idle_world.apply(agent(1))
    run_id = idle_world.run("Queued", [agent_step("n", "number")], workflow={"result": {"step": "n"}})
    idle_world.apply(agent(2))
    idle_world.local_runtime.start()
    assert result_of(idle_world, run_id) == 1
