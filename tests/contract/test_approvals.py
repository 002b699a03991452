"""Human gates: a run parks, a person decides, a new segment begins. (contract 13.3 to 13.7)"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from tests.support.admin import Admin
from tests.support.client import Caller
from tests.support.expect import is_timestamp
from tests.support.poll import until
from tests.support.routes import ROUTES


def pending(caller: Caller, run_id: str) -> list[dict[str, Any]]:
    answer = caller.get(f"/runs/{run_id}/approvals")
    assert answer.status == 200, answer
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


def test_a_parked_run_shows_its_node_and_executes_nothing(caller: Caller, flows: dict[str, str]) -> None:
    run = caller.parked(flows["Gate"], input_text="x")
    [approval] = pending(caller, run["run_id"])
    assert set(approval) == {"approval_id", "step", "title", "instructions", "segment_id", "requested_at"}
    assert is_timestamp(approval["requested_at"])
    assert approval["approval_id"].startswith("apr_")
    assert (approval["step"], approval["title"]) == ("review", "Check the echo")
    assert approval["instructions"] == "Is it plausible?"
    page = caller.events(run["run_id"])
    assert approval["segment_id"] == page["segment_id"]
    assert [segment["ended_at"] is not None for segment in page["segments"]] == [True]
    assert run["counts"]["approvals_pending"] == 1
    steps = {step["step"]: step["status"] for step in caller.get(f"/runs/{run['run_id']}/steps").json()["items"]}
    assert steps == {"before": "completed", "review": "waiting_for_approval", "after": "pending"}


def test_an_approval_starts_a_new_segment_and_the_run_completes(
    caller: Caller, admin: Admin, flows: dict[str, str]
) -> None:
    run_id = caller.parked(flows["Gate"], input_text="x")["run_id"]
    first = caller.events(run_id)
    [approval] = pending(caller, run_id)
    admin.decide(approval["approval_id"], approve=True, comment="fine")
    run = caller.wait(run_id)
    assert run["status"] == "completed"
    assert run["counts"]["approvals_pending"] == 0
    assert run["counts"]["steps_completed"] == 3
    assert pending(caller, run_id) == []

    latest = caller.events(run_id)
    assert [segment["ordinal"] for segment in latest["segments"]] == [1, 2]
    assert latest["segment_id"] == latest["segments"][1]["segment_id"] != first["segment_id"]
    assert latest["events"][0]["seq"] == 1
    again = caller.events(run_id, segment=first["segment_id"])
    assert again["segment_id"] == first["segment_id"]
    assert again["events"][: len(first["events"])] == first["events"]
    types = [event["type"] for event in again["events"] + latest["events"]]
    assert types.count("approval.requested") == types.count("approval.decided") == 1
    assert types.count("segment.started") == types.count("segment.ended") == 2
    assert types.count("run.started") == types.count("run.completed") == 1
    steps = {step["step"]: step["segment_id"] for step in caller.get(f"/runs/{run_id}/steps").json()["items"]}
    assert steps["before"] == first["segment_id"]
    assert steps["after"] == latest["segment_id"]


def test_a_rejection_fails_the_run_with_invariant_blocked(caller: Caller, admin: Admin, flows: dict[str, str]) -> None:
    run_id = caller.parked(flows["Gate"], input_text="x")["run_id"]
    admin.decide(pending(caller, run_id)[0]["approval_id"], approve=False, comment="no")
    run = caller.wait(run_id)
    assert run["status"] == "failed"
    assert run["error"]["code"] == "invariant_blocked"
    assert pending(caller, run_id) == []
    steps = {step["step"]: step["status"] for step in caller.get(f"/runs/{run_id}/steps").json()["items"]}
    assert (steps["before"], steps["review"]) == ("completed", "blocked")
    assert set(caller.outputs(run_id)) == {"before/echo.txt"}


def test_two_gates_make_three_segments(caller: Caller, admin: Admin, flows: dict[str, str]) -> None:
    run_id = caller.parked(flows["Two gates"])["run_id"]
    for step in ("first", "second"):
        caller.wait(run_id, "waiting_for_approval")
        [approval] = pending(caller, run_id)
        assert approval["step"] == step
        admin.decide(approval["approval_id"], approve=True)
        if step == "first":
            # The decision itself takes the run out of its parking place.
            assert caller.run(run_id)["status"] != "completed"
            _wait_for_step(caller, run_id, "second")
    assert caller.wait(run_id)["status"] == "completed"
    assert len(caller.events(run_id)["segments"]) == 3


def _wait_for_step(caller: Caller, run_id: str, step: str) -> None:
    until(lambda: any(item["step"] == step for item in pending(caller, run_id)), f"the gate {step}")


@pytest.mark.parametrize("order", [["left", "right"], ["right", "left"]])
def test_gates_side_by_side_are_decided_in_any_order(
    caller: Caller, admin: Admin, flows: dict[str, str], order: list[str]
) -> None:
    run_id = caller.parked(flows["Side gates"], input_text="x")["run_id"]
    gates = {approval["step"]: approval["approval_id"] for approval in pending(caller, run_id)}
    assert set(gates) == {"left", "right"}
    for step in order:
        admin.decide(gates[step], approve=True)
    assert caller.wait(run_id)["status"] == "completed"
    assert set(caller.outputs(run_id)) == {"behind/echo.txt"}


def test_gates_decided_at_once_lose_no_decision(caller: Caller, admin: Admin, flows: dict[str, str]) -> None:
    for _ in range(5):
        run_id = caller.parked(flows["Side gates"], input_text="x")["run_id"]
        approvals = [approval["approval_id"] for approval in pending(caller, run_id)]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda approval: admin.decide(approval, approve=True), approvals))
        assert caller.wait(run_id)["status"] == "completed"


def test_a_rejection_beside_a_pending_gate_fails_the_run(caller: Caller, admin: Admin, flows: dict[str, str]) -> None:
    run_id = caller.parked(flows["Side gates"])["run_id"]
    gates = {approval["step"]: approval["approval_id"] for approval in pending(caller, run_id)}
    admin.decide(gates["left"], approve=False)
    run = caller.wait(run_id)
    assert (run["status"], run["error"]["code"]) == ("failed", "invariant_blocked")
    assert run["counts"]["approvals_pending"] == 0
    assert pending(caller, run_id) == []
    with pytest.raises(grpc.RpcError):
        admin.decide(gates["right"], approve=True)


def test_a_decision_is_final(caller: Caller, admin: Admin, flows: dict[str, str]) -> None:
    run_id = caller.parked(flows["Park"])["run_id"]
    [approval] = pending(caller, run_id)
    admin.decide(approval["approval_id"], approve=True)
    caller.wait(run_id, "completed")
    with pytest.raises(grpc.RpcError):
        admin.decide(approval["approval_id"], approve=False)
    assert caller.run(run_id)["status"] == "completed"


def test_the_api_reads_approvals_and_never_grants_them() -> None:
    assert [route.method for route in ROUTES if "approval" in route.template] == ["GET"]


def test_a_run_without_gates_has_no_approvals(resident: Caller, echo_run: dict[str, Any]) -> None:
    assert resident.get(f"/runs/{echo_run['run_id']}/approvals").json() == {"items": []}


def test_callers_see_the_reminder_and_the_deadline_of_an_approval(caller: Caller, flows: dict[str, str]) -> None:
    run_id = caller.parked(flows["Bounded gate"])["run_id"]
    [approval] = pending(caller, run_id)
    assert set(approval) == {"approval_id", "step", "title", "instructions", "segment_id", "requested_at"}
    run = caller.wait(run_id)
    assert (run["status"], run["error"]["code"]) == ("failed", "invariant_blocked")
    page = caller.events(run_id)
    events = [
        event
        for segment in page["segments"]
        for event in caller.events(run_id, segment=segment["segment_id"])["events"]
        if event["type"].startswith("approval.")
    ]
    asked, reminded, expired, decided = events
    assert [event["type"] for event in events] == [
        "approval.requested",
        "approval.reminded",
        "approval.expired",
        "approval.decided",
    ]
    about = {"approval_id": approval["approval_id"]}
    assert asked["data"] == {**about, "title": "Close it?"}
    assert is_timestamp(reminded["data"]["deadline_at"])
    assert reminded["data"] == {**about, "deadline_at": reminded["data"]["deadline_at"]}
    assert expired["data"] == {**about, "on_deadline": "reject"}
    assert decided["data"] == {**about, "decision": "rejected", "comment": "deadline", "form": None}
    assert pending(caller, run_id) == []


def test_the_api_takes_no_values_of_a_form(caller: Caller, flows: dict[str, str]) -> None:
    run_id = caller.parked(flows["Bounded gate"])["run_id"]
    [approval] = pending(caller, run_id)
    base = f"/runs/{run_id}/approvals"
    body = {"approve": True, "form": {"note": "x"}}
    assert caller.post(base, body).status == 405
    for path in (f"{base}/{approval['approval_id']}", f"{base}/{approval['approval_id']}/decision"):
        assert caller.post(path, body).status == 404
    assert len(pending(caller, run_id)) == 1
    caller.post(f"/runs/{run_id}/cancel", {})
