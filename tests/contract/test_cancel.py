"""POST /runs/{run_id}/cancel. (contract 19)"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.contract.conftest import NewCaller
from tests.support.client import Caller
from tests.support.expect import invalid, is_timestamp, refused
from tests.support.wire import Answer


def asleep(caller: Caller, flows: dict[str, str]) -> str:
    """A run whose second step is in the middle of its work."""
    run_id = caller.started(flows["Sleep"])
    caller.wait_for_event(run_id, "step.progress")
    return run_id


def test_a_run_is_cancelled_in_mid_step_within_two_seconds(caller: Caller, flows: dict[str, str]) -> None:
    run_id = asleep(caller, flows)
    answer = caller.post(f"/runs/{run_id}/cancel", {"reason": "r" * 500})
    assert answer.status == 202, answer
    shown = answer.json()
    assert set(shown) == {"run_id", "status", "cancel_requested_at"}
    assert shown["run_id"] == run_id
    assert is_timestamp(shown["cancel_requested_at"])
    run = caller.wait(run_id, "cancelled")
    assert "error" not in run
    assert is_timestamp(run["finished_at"])
    assert isinstance(run["duration_ms"], int)
    assert run["completed_with_warnings"] is False


def test_a_cancelled_run_keeps_what_completed_steps_left(caller: Caller, flows: dict[str, str]) -> None:
    run_id = asleep(caller, flows)
    caller.post(f"/runs/{run_id}/cancel")
    caller.wait(run_id, "cancelled")
    steps = {step["step"]: step["status"] for step in caller.get(f"/runs/{run_id}/steps").json()["items"]}
    assert steps["doze"] == "completed"
    assert steps["sleep"] == "cancelled"
    assert steps["after"] in {"pending", "cancelled"}
    assert set(caller.outputs(run_id)) == {"doze/echo.txt"}
    assert "run.cancelled" in [event["type"] for event in caller.events(run_id)["events"]]


def test_the_slot_is_free_once_the_run_is_cancelled(new_caller: NewCaller, flows: dict[str, str]) -> None:
    caller = new_caller(max_concurrent_runs=1)
    run_id = asleep(caller, flows)
    caller.post(f"/runs/{run_id}/cancel")
    caller.wait(run_id, "cancelled")
    assert caller.get("/me").json()["active_runs"] == 0
    caller.started(flows["Silence"])


def test_a_parked_run_is_cancelled(caller: Caller, flows: dict[str, str]) -> None:
    run_id = caller.parked(flows["Gate"])["run_id"]
    assert caller.post(f"/runs/{run_id}/cancel").status == 202
    run = caller.wait(run_id, "cancelled")
    assert run["counts"]["approvals_pending"] == 0
    assert caller.get(f"/runs/{run_id}/approvals").json() == {"items": []}


def test_a_run_is_cancelled_however_early(caller: Caller, flows: dict[str, str]) -> None:
    for _ in range(5):
        run_id = caller.started(flows["Sleep"])
        assert caller.post(f"/runs/{run_id}/cancel").status == 202
        run = caller.wait(run_id, "cancelled")
        if run["started_at"] is None:
            assert run["duration_ms"] is None


def test_a_second_cancel_before_the_first_took_effect_is_accepted(caller: Caller, flows: dict[str, str]) -> None:
    run_id = asleep(caller, flows)

    def cancel(_: int) -> Answer:
        return caller.post(f"/runs/{run_id}/cancel")

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(cancel, range(8)))
    accepted = [answer.json() for answer in answers if answer.status == 202]
    assert len({answer["cancel_requested_at"] for answer in accepted}) == 1
    for answer in answers:
        if answer.status != 202:
            refused(answer, 409, "already_terminal")


def test_a_finished_run_is_already_terminal(resident: Caller, echo_run: dict[str, Any], flows: dict[str, str]) -> None:
    refused(resident.post(f"/runs/{echo_run['run_id']}/cancel"), 409, "already_terminal")
    failed = resident.finished(flows["Failure"])
    refused(resident.post(f"/runs/{failed['run_id']}/cancel", {"reason": "late"}), 409, "already_terminal")
    run_id = resident.parked(flows["Park"])["run_id"]
    resident.post(f"/runs/{run_id}/cancel")
    resident.wait(run_id, "cancelled")
    refused(resident.post(f"/runs/{run_id}/cancel"), 409, "already_terminal")


def test_the_body_is_optional_and_its_reason_bounded(caller: Caller, flows: dict[str, str]) -> None:
    bodies: list[Callable[[str], Answer]] = [
        lambda path: caller.call("POST", path),
        lambda path: caller.call("POST", path, body=b"{}"),
        lambda path: caller.post(path, {"reason": None}),
        lambda path: caller.post(path, {"reason": "é" * 500}),
        lambda path: caller.post(path, {"reason": ""}),
    ]
    for send in bodies:
        run_id = caller.parked(flows["Park"])["run_id"]
        invalid(caller.post(f"/runs/{run_id}/cancel", {"reason": "é" * 501}), "reason")
        assert caller.run(run_id)["status"] == "waiting_for_approval"
        assert send(f"/runs/{run_id}/cancel").status == 202
