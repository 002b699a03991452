"""GET /runs/{run_id}/steps: the states of its steps. (contract 16.1)"""

from typing import Any

from tests.support.client import Caller
from tests.support.expect import is_timestamp

FIELDS = {
    "step",
    "name",
    "kind",
    "status",
    "needs",
    "agent_id",
    "segment_id",
    "attempt",
    "optional",
    "started_at",
    "finished_at",
    "duration_ms",
    "error",
    "reused_from",
    "items",
}


def board(caller: Caller, run_id: str) -> dict[str, dict[str, Any]]:
    answer = caller.get(f"/runs/{run_id}/steps")
    assert answer.status == 200, answer
    assert set(answer.json()) == {"items"}
    items = answer.json()["items"]
    assert all(set(item) == FIELDS for item in items)
    return {item["step"]: item for item in items}


def test_a_completed_step_shows_its_times_agent_and_segment(resident: Caller, echo_run: dict[str, Any]) -> None:
    step = board(resident, echo_run["run_id"])["echo"]
    assert is_timestamp(step["started_at"])
    assert is_timestamp(step["finished_at"])
    assert isinstance(step["duration_ms"], int)
    assert isinstance(step["agent_id"], str)
    assert step["segment_id"] == resident.events(echo_run["run_id"])["segment_id"]
    assert (step["kind"], step["status"], step["needs"]) == ("agent", "completed", [])
    assert (step["attempt"], step["optional"], step["error"]) == (1, False, None)
    assert (step["items"], step["reused_from"]) == (None, None)


def test_steps_are_listed_in_the_order_of_the_definition(
    resident: Caller, parked_run: dict[str, Any], flows: Any
) -> None:
    run_id = resident.parked(flows["Gate"])["run_id"]
    steps = board(resident, run_id)
    assert list(steps) == ["before", "review", "after"]
    assert [step["kind"] for step in steps.values()] == ["agent", "approval", "agent"]
    assert [step["needs"] for step in steps.values()] == [[], ["before"], ["review"]]
    assert steps["review"]["agent_id"] is None
    after = steps["after"]
    assert (after["status"], after["started_at"], after["finished_at"]) == ("pending", None, None)
    assert (after["duration_ms"], after["segment_id"]) == (None, None)
    resident.post(f"/runs/{run_id}/cancel")


def test_a_failed_step_says_why_and_what_is_behind_it_is_blocked(resident: Caller, flows: dict[str, str]) -> None:
    run = resident.finished(flows["Failure"])
    steps = board(resident, run["run_id"])
    assert {name: step["status"] for name, step in steps.items()} == {
        "first": "completed",
        "fall": "failed",
        "never": "blocked",
    }
    error = steps["fall"]["error"]
    assert set(error) == {"code", "message"}
    assert error["code"] == "node_failed"
    assert "ValueError" in error["message"]
    assert "the sky fell" in error["message"]
    assert "Traceback" not in error["message"]
    assert steps["first"]["error"] is None


def test_behind_an_optional_failure_an_optional_step_is_skipped(resident: Caller, flows: dict[str, str]) -> None:
    run = resident.finished(flows["Optional failure"])
    steps = board(resident, run["run_id"])
    assert {name: (step["status"], step["optional"]) for name, step in steps.items()} == {
        "extra": ("failed", True),
        "behind": ("skipped", True),
        "main": ("completed", False),
    }


def test_no_more_steps_run_at_once_than_the_workflow_allows(resident: Caller, flows: dict[str, str]) -> None:
    assert resident.get(f"/workflows/{flows['Broad']}").json()["parallel_steps"] == 2
    run = resident.finished(flows["Broad"])
    assert run["status"] == "completed"
    steps = board(resident, run["run_id"])
    assert steps["a"]["finished_at"] <= steps["e"]["started_at"]
    spans = [(step["started_at"], step["finished_at"]) for step in steps.values()]
    concurrent = [sum(first <= start < last for first, last in spans) for start, _ in spans]
    assert max(concurrent) == 2
