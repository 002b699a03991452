"""GET /runs/{run_id}/pii-redaction. (contract 21.19 to 21.24)"""

from typing import Any

from tests.support.client import Caller
from tests.support.expect import refused


def test_a_run_whose_policy_was_off_has_no_manifest(
    resident: Caller, echo_run: dict[str, Any], parked_run: dict[str, Any]
) -> None:
    for run in (echo_run, parked_run):
        refused(resident.get(f"/runs/{run['run_id']}/pii-redaction"), 404, "pii_redaction_not_applied")


def test_the_manifest_of_an_unfinished_run_has_its_stages_pending(caller: Caller, flows: dict[str, str]) -> None:
    run_id = caller.started(flows["Detecting"])
    caller.wait_for_event(run_id, "step.progress")
    answer = caller.get(f"/runs/{run_id}/pii-redaction")
    assert answer.status == 200, answer
    manifest = answer.json()
    assert set(manifest) == {"run_id", "mode", "model", "stages", "categories", "counts"}
    assert (manifest["run_id"], manifest["mode"]) == (run_id, "detect")
    assert [stage["stage"] for stage in manifest["stages"]] == ["outputs"]
    for stage in manifest["stages"]:
        assert set(stage) == {"stage", "status", "files", "values", "model_calls"}
        assert stage["status"] == "pending"
    assert all(isinstance(count, int) for count in manifest["counts"].values())
    assert manifest["categories"] == {}
