"""GET /runs/{run_id}: the detail of runs that ended in different ways. (contract 14)"""

import hashlib
import json
from datetime import datetime
from typing import Any

import pytest

from tests.contract.conftest import NewCaller
from tests.support.admin import Admin, workflow_access
from tests.support.client import Caller
from tests.support.expect import is_timestamp, refused
from tests.support.poll import until
from workflow_api.v1 import keys_pb2

DETAIL = {
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
    "warnings",
    "completed_with_warnings",
    "links",
    "parameters",
    "input_text",
    "inputs_manifest",
    "max_run_hours",
    "triggered_by",
    "key_id",
    "summary_markdown",
    "result",
    "result_error",
    "result_schema_version",
    "result_json",
    "data_purged_at",
    "pii_redaction",
    "pii_policy",
    "resumed_from",
    "resumed_by",
    "parent_run_id",
    "usage",
}


def milliseconds(timestamp: str) -> int:
    return round(datetime.fromisoformat(timestamp).timestamp() * 1000)


def test_a_completed_run_is_shown_in_full(resident: Caller, echo_run: dict[str, Any], flows: dict[str, str]) -> None:
    run = dict(echo_run)
    assert set(run) == DETAIL
    for field in ("created_at", "started_at", "finished_at"):
        assert is_timestamp(run[field])
    assert run["created_at"] <= run["started_at"] <= run["finished_at"]
    assert run["duration_ms"] == milliseconds(run["finished_at"]) - milliseconds(run["started_at"])
    expected = {
        "workflow_id": flows["Echo"],
        "workflow_name": "Echo",
        "version": 1,
        "status": "completed",
        "client_reference": "order 7",
        "labels": {"team": "blue"},
        "warnings": [],
        "completed_with_warnings": False,
        "parameters": {},
        "input_text": "hello",
        "max_run_hours": None,
        "triggered_by": "api_key",
        "key_id": resident.key_id,
        "summary_markdown": "# Echo",
        "result": {"text": "hello", "parameters": {}, "summary_markdown": "# Echo"},
        "result_error": None,
        "result_schema_version": "7",
        "data_purged_at": None,
        "pii_redaction": None,
        "counts": {
            "steps_total": 1,
            "steps_completed": 1,
            "steps_failed": 0,
            "steps_skipped": 0,
            "approvals_pending": 0,
            "outputs": 2,
        },
    }
    assert {field: run[field] for field in expected} == expected
    assert run["inputs_manifest"] in (None, [])
    assert run["pii_policy"]["mode"] == "off"
    assert list(run["pii_policy"]) == sorted(run["pii_policy"])


def test_links_are_absolute_paths_on_the_host(resident: Caller, echo_run: dict[str, Any]) -> None:
    base = f"/api/v1/runs/{echo_run['run_id']}"
    assert echo_run["links"] == {
        "self": base,
        "steps": f"{base}/steps",
        "events": f"{base}/events",
        "approvals": f"{base}/approvals",
        "outputs": f"{base}/outputs",
        "outputs_zip": f"{base}/outputs.zip",
        "pii_redaction": f"{base}/pii-redaction",
        "cancel": f"{base}/cancel",
        "data": f"{base}/data",
    }


def test_the_result_is_the_promoted_output_result_json(resident: Caller, echo_run: dict[str, Any]) -> None:
    listed = echo_run["result_json"]
    assert set(listed) == {"size_bytes", "sha256", "download"}
    content = resident.get(listed["download"]["path"].removeprefix("/api/v1")).body
    assert json.loads(content) == echo_run["result"]
    assert listed["size_bytes"] == len(content)
    assert listed["sha256"] == hashlib.sha256(content).hexdigest()
    output = resident.outputs(echo_run["run_id"])["result.json"]
    assert output["step"] is None
    assert output["download"] == listed["download"]


@pytest.mark.parametrize(("size", "inline"), [(262_144, True), (262_145, False)])
def test_a_result_is_inline_up_to_262144_bytes(
    resident: Caller, flows: dict[str, str], size: int, inline: bool
) -> None:
    run = resident.finished(flows["Long answer"], parameters={"size": size})
    assert run["status"] == "completed"
    answer = "x" * (size - 2)
    assert run["result"] == (answer if inline else None)
    assert run["result_error"] is None
    assert run["result_json"]["size_bytes"] == size
    content = resident.get(run["result_json"]["download"]["path"].removeprefix("/api/v1"))
    assert content.json() == answer


def test_a_result_that_fails_its_schema_leaves_the_run_completed(resident: Caller, flows: dict[str, str]) -> None:
    run = resident.finished(flows["Wrong result"], input_text="hello")
    assert run["status"] == "completed"
    assert run["result"] is None
    assert run["result_error"]["code"] == "result_schema_mismatch"
    assert run["result_error"]["message"]
    assert "error" not in run
    content = resident.get(run["result_json"]["download"]["path"].removeprefix("/api/v1")).json()
    assert content["text"] == "hello"


def test_a_workflow_without_a_result_step_has_no_result(resident: Caller, tree_run: dict[str, Any]) -> None:
    assert [tree_run[field] for field in ("result", "result_error", "result_json", "result_schema_version")] == [
        None
    ] * 4


def test_an_optional_failure_completes_the_run_with_warnings(resident: Caller, flows: dict[str, str]) -> None:
    run = resident.finished(flows["Optional failure"])
    assert run["status"] == "completed"
    assert run["completed_with_warnings"] is True
    assert run["warnings"]
    assert all(isinstance(warning, str) for warning in run["warnings"])
    assert any("extra" in warning for warning in run["warnings"])
    assert "error" not in run
    counts = run["counts"]
    assert (counts["steps_completed"], counts["steps_failed"], counts["steps_skipped"]) == (1, 1, 1)
    assert "main/echo.txt" in resident.outputs(run["run_id"])
    [listed] = [item for item in resident.get("/runs").json()["items"] if item["run_id"] == run["run_id"]]
    assert (listed["warnings"], listed["completed_with_warnings"]) == (run["warnings"], True)


def test_a_failed_step_fails_the_run_with_node_failed(resident: Caller, flows: dict[str, str]) -> None:
    run = resident.finished(flows["Failure"])
    assert set(run) == DETAIL | {"error"}
    assert run["status"] == "failed"
    assert set(run["error"]) == {"code", "message"}
    assert run["error"]["code"] == "node_failed"
    assert run["completed_with_warnings"] is False
    assert run["counts"]["steps_failed"] == 1
    assert "Traceback" not in json.dumps(run)


def test_an_unfinished_run_has_no_end_time(resident: Caller, parked_run: dict[str, Any]) -> None:
    run = resident.run(parked_run["run_id"])
    assert run["status"] == "waiting_for_approval"
    assert (run["finished_at"], run["duration_ms"], run["result"], run["result_json"]) == (None, None, None, None)
    assert run["counts"]["approvals_pending"] == 1
    assert "error" not in run


def test_a_run_that_does_not_exist_is_not_found(resident: Caller) -> None:
    refused(resident.get("/runs/run_none"), 404, "run_not_found")


def test_own_runs_stay_readable_when_the_workflow_list_changes(
    new_caller: NewCaller, flows: dict[str, str], admin: Admin
) -> None:
    caller = new_caller()
    run = caller.finished(flows["Echo"], input_text="x")
    access = workflow_access([flows["Silence"]])
    admin.keys.UpdateKey(keys_pb2.UpdateKeyRequest(key_id=caller.key_id, workflow_access=access))
    until(lambda: caller.get(f"/workflows/{flows['Echo']}").status == 404, "the new workflow list")
    assert caller.run(run["run_id"]) == run
    assert [item["run_id"] for item in caller.get("/runs").json()["items"]] == [run["run_id"]]
    assert "echo/echo.txt" in caller.outputs(run["run_id"])


def test_a_run_has_an_entity_tag_and_is_304_to_a_caller_that_has_it(resident: Caller, echo_run: dict[str, Any]) -> None:
    path = f"/runs/{echo_run['run_id']}"
    whole = resident.get(path)
    tag = whole.headers["ETag"]
    assert tag.startswith('"')
    for given in (tag, f'"other", W/{tag}', "*"):
        unchanged = resident.get(path, headers={"If-None-Match": given})
        assert (unchanged.status, unchanged.body, unchanged.headers["ETag"]) == (304, b"", tag)
    for given in ('"other"', "malformed"):
        assert resident.get(path, headers={"If-None-Match": given}).body == whole.body


def test_the_entity_tag_of_a_run_changes_with_the_run(caller: Caller, flows: dict[str, str]) -> None:
    run_id = caller.started(flows["Gate"])
    until(lambda: caller.run(run_id)["status"] == "waiting_for_approval", "the approval")
    parked = caller.get(f"/runs/{run_id}")
    assert caller.post(f"/runs/{run_id}/cancel").status == 202
    changed = caller.get(f"/runs/{run_id}", headers={"If-None-Match": parked.headers["ETag"]})
    assert (changed.status, changed.json()["status"]) == (200, "cancelled")
    assert changed.headers["ETag"] != parked.headers["ETag"]
