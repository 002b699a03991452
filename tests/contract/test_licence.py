"""A licence on hold refuses work and nothing else. (contract 12.22, 10.8)"""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.client import Caller
from tests.support.expect import refused
from tests.support.service import Service
from workflow_api.v1 import deployment_pb2

HOLD = {
    "state": "hold",
    "reason": "payment overdue",
    "enforcement_status": "blocking",
    "license_id": "lic_7",
}


@pytest.fixture
def licensee(changing_service: Service) -> Caller:
    return changing_service.new_caller()


@pytest.fixture
def flow(changing_service: Service) -> dict[str, str]:
    return changing_service.admin.apply_test_workflows()


@pytest.fixture
def held(changing_service: Service, licensee: Caller, flow: dict[str, str]) -> Iterator[Any]:
    """Puts the licence on hold when called, and takes it off in the end."""
    stub = changing_service.admin.deployment

    def hold() -> None:
        stub.UpdateDeployment(
            deployment_pb2.UpdateDeploymentRequest(
                licence_state="hold",
                licence_reason=HOLD["reason"],
                licence_enforcement_status=HOLD["enforcement_status"],
                license_id=HOLD["license_id"],
            )
        )

    yield hold
    stub.UpdateDeployment(deployment_pb2.UpdateDeploymentRequest(licence_state="active"))


def test_a_start_under_a_hold_is_refused_with_the_licence(held: Any, licensee: Caller, flow: dict[str, str]) -> None:
    held()
    refused(licensee.start(flow["Echo"]), 451, "license_unavailable", HOLD)
    me = licensee.get("/me").json()
    assert (me["quota_used_today"], me["active_runs"]) == (0, 0)


def test_reads_are_allowed_under_a_hold(held: Any, licensee: Caller, flow: dict[str, str]) -> None:
    run = licensee.finished(flow["Echo"])
    held()
    assert licensee.run(run["run_id"]) == run
    assert licensee.get("/workflows").status == 200
    assert licensee.outputs(run["run_id"])


def test_the_licence_is_judged_after_readiness_and_before_the_parameters(
    held: Any, licensee: Caller, flow: dict[str, str]
) -> None:
    held()
    refused(licensee.start("wf_none"), 404, "workflow_not_found")
    refused(licensee.start(flow["Withdrawn"]), 409, "workflow_not_active")
    refused(licensee.start(flow["Echo"], version=9), 422, "version_not_found")
    assert licensee.start(flow["Unstaffed"]).code == "workflow_not_ready"
    wrong: dict[str, Any] = {"parameters": {"x": 1}, "pii_policy_override": 1}
    refused(licensee.start(flow["Echo"], **wrong), 451, "license_unavailable", HOLD)


def test_a_replay_needs_no_licence(held: Any, licensee: Caller, flow: dict[str, str]) -> None:
    key = uuid.uuid4().hex
    run_id = licensee.start(flow["Silence"], key).json()["run_id"]
    held()
    replay = licensee.start(flow["Silence"], key)
    assert (replay.status, replay.json()["run_id"]) == (200, run_id)


def test_a_start_refused_under_a_hold_succeeds_with_its_key_once_it_ended(
    held: Any, changing_service: Service, licensee: Caller, flow: dict[str, str]
) -> None:
    held()
    key = uuid.uuid4().hex
    assert licensee.start(flow["Silence"], key).status == 451
    refused(licensee.start(flow["Silence"], key, input_text="x"), 409, "idempotency_conflict")
    release = deployment_pb2.UpdateDeploymentRequest(licence_state="active")
    changing_service.admin.deployment.UpdateDeployment(release)
    assert licensee.start(flow["Silence"], key).status == 201
