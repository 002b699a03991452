"""A run does what its version says, whatever its agents have become since (DECISIONS.md, 3)."""

import json
from typing import Any

import pytest

from tests.services.runtime.conftest import Live, agent_step, gate

CODE = "def run(context):\n    return {result}\n"


def agent(result: int) -> str:
    return json.dumps({"kind": "Agent", "name": "number", "type": "python", "code": CODE.format(result=result)})


def result_of(live: Live, run_id: str) -> Any:
    row = live.until_ended(run_id)
    assert row.status == "completed", row.error_message
    return json.loads(row.result)


@pytest.mark.parametrize(("version", "result"), [(1, 1), (2, 2), (None, 2)])
def test_a_run_of_a_version_runs_the_agents_of_that_version(live: Live, version: int | None, result: int) -> None:
    live.apply(agent(1))
    asked = {} if version is None else {"version": version}
    live.run("Number", [agent_step("n", "number")], workflow={"result": {"step": "n"}})
    live.apply(agent(2))
    run_id = live.started("Number", **asked)
    assert (live.row(run_id).version, result_of(live, run_id)) == (version or 2, result)


def test_a_run_that_waited_for_an_approval_goes_on_with_the_agents_of_its_version(live: Live) -> None:
    live.apply(agent(1))
    run_id = live.run(
        "Number after a gate", [gate("review"), agent_step("n", "number", "review")], workflow={"result": {"step": "n"}}
    )
    live.until_status(run_id, "waiting_for_approval")
    live.apply(agent(2))
    live.decide(live.approvals(run_id)["review"], True)
    assert result_of(live, run_id) == 1
    again = live.started("Number after a gate")
    live.until_status(again, "waiting_for_approval")
    live.decide(live.approvals(again)["review"], True)
    assert (live.row(again).version, result_of(live, again)) == (2, 2)


def test_a_queued_run_runs_the_agents_that_it_was_started_with(idle: Live) -> None:
    idle.apply(agent(1))
    run_id = idle.run("Queued", [agent_step("n", "number")], workflow={"result": {"step": "n"}})
    idle.apply(agent(2))
    idle.live.start()
    assert result_of(idle, run_id) == 1
