"""DeploymentService: the deployment record and the audit trail (contract 10.4 to 10.6, 22.10)."""

from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from backend.services.audit import sql as audit
from backend.services.dependencies import Services
from contract.times import milliseconds_of, to_timestamp
from contract.versions import RELEASE
from tests.services.calls import Caller, RefusedError
from workflow_api.v1 import audit_pb2, deployment_pb2
from workflow_api_testing import TestBackend


def days(count: int) -> Duration:
    return Duration(seconds=count * 86_400)


@pytest.fixture
def deployment(backend: TestBackend) -> Caller:
    return Caller.of_backend(backend)


def update(deployment: Caller, **fields: Any) -> Any:
    return deployment("UpdateDeployment", deployment_pb2.UpdateDeploymentRequest(**fields))


def record(deployment: Caller) -> Any:
    return deployment("GetDeployment", deployment_pb2.GetDeploymentRequest())


def trail(deployment: Caller, **fields: Any) -> list[Any]:
    return list(deployment("ListAuditRecords", audit_pb2.ListAuditRecordsRequest(**fields)).items)


def test_a_new_deployment_is_governed_enabled_and_licensed(deployment: Caller) -> None:
    fresh = record(deployment)
    assert (fresh.deployment_id, fresh.governed, fresh.api_enabled) == ("dep-test", True, True)
    assert (fresh.licence.state, fresh.licence.HasField("license_id"), fresh.retention) == ("active", False, days(90))


def test_the_release_is_at_least_the_first_that_serves_this_api(deployment: Caller) -> None:
    assert record(deployment).release == RELEASE
    assert tuple(map(int, RELEASE.split("."))) >= (1, 0, 139)


def test_only_what_is_given_changes(deployment: Caller) -> None:
    update(deployment, licence_state="hold", licence_reason="unpaid", license_id="lic-1")
    changed = update(deployment, governed=False)
    assert (changed.governed, changed.api_enabled, changed.retention) == (False, True, days(90))
    assert (changed.licence.state, changed.licence.reason, changed.licence.license_id) == ("hold", "unpaid", "lic-1")
    assert record(deployment) == changed


@pytest.mark.parametrize("count", [1, 90, 3650])
def test_run_data_is_kept_for_1_to_3650_days(deployment: Caller, count: int) -> None:
    assert update(deployment, retention=days(count)).retention == days(count)


@pytest.mark.parametrize("seconds", [-86_400, 0, 3651 * 86_400, 86_401])
def test_a_retention_out_of_bounds_is_refused_with_the_bounds(deployment: Caller, seconds: int) -> None:
    with pytest.raises(RefusedError) as refused:
        update(deployment, retention=Duration(seconds=seconds))
    assert refused.value.problems == {"retention_days": "must be a whole number of days from 1 to 3,650"}
    assert record(deployment).retention == days(90)


def test_the_reason_of_a_hold_ends_with_it(deployment: Caller) -> None:
    update(deployment, licence_state="hold", licence_reason="unpaid", licence_enforcement_status="blocked")
    lifted = update(deployment, licence_state="active").licence
    assert not lifted.HasField("reason")
    assert not lifted.HasField("enforcement_status")


def test_a_licence_is_active_or_on_hold(deployment: Caller) -> None:
    with pytest.raises(RefusedError) as refused:
        update(deployment, licence_state="expired")
    assert refused.value.problems == {"licence_state": "must be active or hold"}


def test_a_page_of_the_audit_trail_has_up_to_200_rows_newest_first(deployment: Caller, services: Services) -> None:
    def fill(tx: Any) -> None:
        for at in range(201):
            audit.record(tx, at=at, actor="ada", action="key.edited", target=f"ak_{at % 2}")

    services.database.write(fill)
    assert [milliseconds_of(row.at) for row in trail(deployment, until=to_timestamp(201), page_size=200)] == list(
        range(200, 0, -1)
    )
    assert len(trail(deployment, until=to_timestamp(201))) == 50
    assert [milliseconds_of(row.at) for row in trail(deployment, since=to_timestamp(199), until=to_timestamp(201))] == [
        200,
        199,
    ]
    assert [milliseconds_of(row.at) for row in trail(deployment, until=to_timestamp(2))] == [1, 0]
    assert {row.target for row in trail(deployment, target="ak_1", until=to_timestamp(201), page_size=200)} == {"ak_1"}


def test_pages_of_the_audit_trail_follow_one_another(deployment: Caller, services: Services) -> None:
    def fill(tx: Any) -> None:
        for number in range(7):
            audit.record(tx, at=5, actor="ada", action="key.edited", target=f"ak_{number}")

    services.database.write(fill)
    targets: list[str] = []
    cursor = ""
    for _ in range(3):
        request = audit_pb2.ListAuditRecordsRequest(until=to_timestamp(6), page_size=3, page_token=cursor)
        page = deployment("ListAuditRecords", request)
        targets += [row.target for row in page.items]
        cursor = page.next_page_token
    assert targets == [f"ak_{number}" for number in range(6, -1, -1)]
    assert cursor == ""


def test_a_window_of_the_audit_trail_is_under_90_days(deployment: Caller, services: Services) -> None:
    days = 86_400_000
    services.database.write(lambda tx: audit.record(tx, at=1, actor="ada", action="key.edited", target="ak_1"))
    assert len(trail(deployment, since=to_timestamp(1), until=to_timestamp(90 * days))) == 1
    assert not trail(deployment, until=to_timestamp(90 * days + 1))
    with pytest.raises(RefusedError) as refused:
        trail(deployment, since=to_timestamp(0), until=to_timestamp(90 * days))
    assert set(refused.value.problems) == {"since"}


@pytest.mark.parametrize("limit", [0, 201])
def test_a_page_of_the_audit_trail_beyond_its_bounds_is_refused(deployment: Caller, limit: int) -> None:
    with pytest.raises(RefusedError) as refused:
        trail(deployment, page_size=limit)
    assert refused.value.problems == {"page_size": "must be an integer from 1 to 200"}
