"""GET /health and GET /me. (contract 10.1 to 10.2, 9.12 to 9.14)"""

from tests.contract.conftest import NewCaller
from tests.support.admin import SCOPES
from tests.support.client import Caller
from tests.support.expect import is_timestamp
from tests.support.service import Service
from workflow_api.v1 import keys_pb2, options_pb2


def test_health_has_status_deployment_and_contract_date_and_no_more(service: Service, resident: Caller) -> None:
    record = service.call("GET", "/health").json()
    assert record == {
        "status": "ok",
        "deployment_id": resident.get("/me").json()["deployment_id"],
        "api_version": "2026-09-24",
    }


def test_health_ignores_credentials(service: Service) -> None:
    assert service.call("GET", "/health", {"Authorization": "Bearer nonsense"}).status == 200


def test_me_is_the_key_with_its_limits(new_caller: NewCaller) -> None:
    caller = new_caller(name="Número 1", rate_limit_rpm=77, daily_run_quota=88, max_concurrent_runs=9)
    record = caller.get("/me").json()
    assert is_timestamp(record.pop("expires_at"))
    assert isinstance(record.pop("deployment_id"), str)
    assert set(record.pop("scopes")) == set(SCOPES)
    assert record == {
        "key_id": caller.key_id,
        "name": "Número 1",
        "workflow_access": {"mode": "all_active", "workflow_ids": []},
        "rate_limit_rpm": 77,
        "daily_run_quota": 88,
        "quota_used_today": 0,
        "max_concurrent_runs": 9,
        "active_runs": 0,
    }


def test_me_names_the_workflows_of_an_explicit_key(new_caller: NewCaller, flows: dict[str, str]) -> None:
    listed = [flows["Echo"], flows["Drafted"]]
    access = new_caller(workflow_ids=listed).get("/me").json()["workflow_access"]
    assert access["mode"] == "explicit"
    assert sorted(access["workflow_ids"]) == sorted(listed)


def test_me_counts_runs_live(caller: Caller, flows: dict[str, str]) -> None:
    def counters() -> tuple[int, int]:
        record = caller.get("/me").json()
        return record["quota_used_today"], record["active_runs"]

    run = caller.parked(flows["Park"])
    assert counters() == (1, 1)
    caller.parked(flows["Park"])
    assert counters() == (2, 2)
    caller.post(f"/runs/{run['run_id']}/cancel")
    caller.wait(run["run_id"], "cancelled")
    assert counters() == (2, 1)


def test_me_shows_default_limits(service: Service) -> None:
    request = keys_pb2.CreateKeyRequest(name="defaults", scopes=[options_pb2.SCOPE_RUNS_READ])
    made = service.admin.keys.CreateKey(request)
    assert made.record.key.rate_limit_rpm == 60
    assert made.record.key.daily_run_quota == 100
    assert made.record.key.max_concurrent_runs == 10
    days = (made.record.key.expires_at.seconds - made.record.created_at.seconds) / 86400
    assert round(days) == 90
