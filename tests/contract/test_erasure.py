"""DELETE /runs/{run_id}/data: the right to erasure. (contract 20)"""

import io
import json
import uuid
import zipfile
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.admin import Admin
from tests.support.client import Caller
from tests.support.expect import invalid, is_timestamp, refused
from tests.support.poll import until
from tests.support.service import Service
from tests.support.wire import Answer

STAYS = (
    "run_id",
    "workflow_id",
    "workflow_name",
    "version",
    "status",
    "created_at",
    "started_at",
    "finished_at",
    "duration_ms",
    "client_reference",
    "labels",
    "counts",
    "links",
    "max_run_hours",
    "triggered_by",
    "key_id",
    "result_schema_version",
    "pii_policy",
    "resumed_from",
    "resumed_by",
    "parent_run_id",
)


def erase(caller: Caller, run_id: str) -> dict[str, Any]:
    answer = caller.delete(f"/runs/{run_id}/data", {"reason": "asked by the person"})
    assert answer.status == 202, answer
    answered: dict[str, Any] = answer.json()
    assert set(answered) == {"run_id", "data_purged_at"}
    assert answered["run_id"] == run_id
    assert is_timestamp(answered["data_purged_at"])
    return answered


def test_erasure_removes_every_value_and_leaves_ids_times_and_counts(caller: Caller, flows: dict[str, str]) -> None:
    secret = f"secret {uuid.uuid4().hex}"
    before = caller.finished(
        flows["Typed"],
        parameters={"word": "abc", "extra": {"note": secret}},
        input_text=secret,
        client_reference="kept",
        labels={"kept": "yes"},
    )
    output = caller.outputs(before["run_id"])["echo/echo.txt"]
    answered = erase(caller, before["run_id"])
    after = caller.run(before["run_id"])
    assert after["data_purged_at"] == answered["data_purged_at"]
    assert {field: after[field] for field in STAYS} == {field: before[field] for field in STAYS}
    for field in ("parameters", "input_text", "inputs_manifest", "summary_markdown", "result", "result_json"):
        assert not after[field], field
    assert secret not in json.dumps(after)
    assert secret not in caller.get("/runs").body.decode()

    path = f"/runs/{before['run_id']}"
    listed = caller.get(f"{path}/outputs").json()
    assert (listed["items"], listed["total_bytes"]) == ([], 0)
    refused(caller.get(f"{path}/outputs/{output['output_id']}/content"), 404, "output_not_found")
    with zipfile.ZipFile(io.BytesIO(caller.get(f"{path}/outputs.zip").body)) as archive:
        assert archive.namelist() == []
    for suffix in ("events", "steps", "approvals"):
        refused(caller.get(f"{path}/{suffix}"), 404, "not_found")
    refused(caller.get(f"{path}/events?segment=seg_none"), 404, "not_found")
    refused(caller.get(f"{path}/pii-redaction"), 404, "pii_redaction_not_applied")
    refused(caller.post(f"{path}/cancel"), 409, "already_terminal")


def test_no_stored_object_of_an_erased_run_is_left(caller: Caller, service: Service, flows: dict[str, str]) -> None:
    secret = f"secret-{uuid.uuid4().hex}"
    run = caller.finished(flows["Echo"], input_text=secret)
    assert service.files_holding(secret)
    erase(caller, run["run_id"])
    until(lambda: not service.files_holding(secret), "the removal")


def test_an_erased_failure_keeps_its_code_and_loses_its_message(caller: Caller, flows: dict[str, str]) -> None:
    before = caller.finished(flows["Failure"])
    erase(caller, before["run_id"])
    after = caller.run(before["run_id"])
    assert after["status"] == "failed"
    assert after["error"] == {"code": "node_failed", "message": None}


def test_an_erased_result_error_keeps_its_code_and_loses_its_message(caller: Caller, flows: dict[str, str]) -> None:
    before = caller.finished(flows["Wrong result"])
    erase(caller, before["run_id"])
    assert caller.run(before["run_id"])["result_error"] == {"code": "result_schema_mismatch", "message": None}


def test_erased_warnings_lose_their_texts(caller: Caller, flows: dict[str, str]) -> None:
    before = caller.finished(flows["Optional failure"])
    erase(caller, before["run_id"])
    after = caller.run(before["run_id"])
    assert not set(before["warnings"]) & set(after["warnings"])


def test_an_erased_run_still_answers_the_replay_of_its_start(caller: Caller, flows: dict[str, str]) -> None:
    key = uuid.uuid4().hex
    run_id = caller.start(flows["Echo"], key, input_text="x").json()["run_id"]
    caller.wait(run_id)
    erase(caller, run_id)
    replay = caller.start(flows["Echo"], key, input_text="x")
    assert (replay.status, replay.json()["run_id"]) == (200, run_id)
    assert replay.json()["input_text"] is None


def test_an_approved_run_loses_its_approvals_with_their_comments(
    caller: Caller, admin: Admin, service: Service, flows: dict[str, str]
) -> None:
    run_id = caller.parked(flows["Gate"])["run_id"]
    [approval] = caller.get(f"/runs/{run_id}/approvals").json()["items"]
    admin.decide(approval["approval_id"], approve=True, comment="private words")
    caller.wait(run_id, "completed")
    erase(caller, run_id)
    refused(caller.get(f"/runs/{run_id}/approvals"), 404, "not_found")


def test_a_cancelled_run_can_be_erased(caller: Caller, flows: dict[str, str]) -> None:
    run_id = caller.parked(flows["Gate"], input_text="x")["run_id"]
    caller.post(f"/runs/{run_id}/cancel", {"reason": "private words"})
    caller.wait(run_id, "cancelled")
    erase(caller, run_id)
    assert caller.run(run_id)["status"] == "cancelled"


def test_an_unfinished_run_cannot_be_erased(caller: Caller, flows: dict[str, str]) -> None:
    parked = caller.parked(flows["Park"])["run_id"]
    answered = {"status": "waiting_for_approval"}
    refused(caller.delete(f"/runs/{parked}/data"), 409, "run_not_terminal", answered)
    running = caller.started(flows["Sleep"])
    caller.wait_for_event(running, "step.progress")
    refused(caller.delete(f"/runs/{running}/data"), 409, "run_not_terminal", {"status": "running"})


def test_an_erased_run_is_already_purged(caller: Caller, flows: dict[str, str]) -> None:
    run_id = caller.finished(flows["Silence"])["run_id"]
    answered = erase(caller, run_id)
    for body in (None, {"reason": "again"}):
        answer = caller.delete(f"/runs/{run_id}/data", body)
        refused(answer, 409, "already_purged", {"data_purged_at": answered["data_purged_at"]})
    invalid(caller.delete(f"/runs/{run_id}/data", {"reason": 1}), "reason")


def test_erasing_twice_at_once_erases_once(caller: Caller, flows: dict[str, str]) -> None:
    run_id = caller.finished(flows["Echo"])["run_id"]

    def delete(_: int) -> Answer:
        return caller.delete(f"/runs/{run_id}/data")

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(delete, range(8)))
    assert {answer.status for answer in answers} <= {202, 409}
    assert 202 in {answer.status for answer in answers}
    assert {answer.code for answer in answers} <= {None, "already_purged"}
    instant = caller.run(run_id)["data_purged_at"]
    assert {answer.json()["data_purged_at"] for answer in answers if answer.status == 202} == {instant}


@pytest.mark.parametrize("body", [None, {}, {"reason": None}, {"reason": ""}, {"reason": "é" * 500}])
def test_the_body_is_optional_and_its_reason_bounded(caller: Caller, flows: dict[str, str], body: Any) -> None:
    run_id = caller.finished(flows["Silence"])["run_id"]
    invalid(caller.delete(f"/runs/{run_id}/data", {"reason": "é" * 501}), "reason")
    assert caller.run(run_id)["data_purged_at"] is None
    assert caller.delete(f"/runs/{run_id}/data", body).status == 202
