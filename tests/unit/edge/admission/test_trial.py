import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from contract.call_trials import CheckName, CheckOutcome, TrialCall
from contract.routes import BASE, RouteTable
from edge.admission.checks import CHECKS
from edge.admission.trial import try_call
from workflow_api.v1.edge_pb2 import KeyMirror, MirroredKey
from workflow_api.v1.keys_pb2 import AllowedHours
from workflow_api.v1.options_pb2 import SCOPE_RUNS_CREATE, SCOPE_WORKFLOWS_READ

NINE = round(datetime(2026, 9, 24, 9, tzinfo=UTC).timestamp() * 1000)
OPEN = KeyMirror(deployment_id="dep_1", governed=True, api_enabled=True)
ROUTES = RouteTable()
REFUSALS = {check.name: check.refusals for check in CHECKS}


def key(**other: Any) -> MirroredKey:
    fields: dict[str, Any] = {
        "key_id": "ak_0123456789ab",
        "deployment_id": "dep_1",
        "scopes": [SCOPE_WORKFLOWS_READ, SCOPE_RUNS_CREATE],
        "source_allow_list": ["203.0.113.0/24"],
        "allowed_hours": AllowedHours(start_hour=8, end_hour=18),
        "expires_at": Timestamp(seconds=NINE // 1000 + 86_400),
        "rate_limit_rpm": 1,
    }
    return MirroredKey(**{**fields, **other})


def tried(of: MirroredKey | None = None, mirror: KeyMirror = OPEN, **other: Any) -> list[CheckOutcome]:
    call = TrialCall("GET", f"{BASE}/workflows", "203.0.113.7", NINE)._replace(**other)
    return asyncio.run(try_call(call, of or key(), mirror, ROUTES))


@pytest.mark.parametrize(
    "call", [{}, {"method": "POST", "path": f"{BASE}/workflows/wf_1/runs"}, {"path": f"{BASE}/workflows/wf_1"}]
)
def test_a_call_that_would_be_admitted_passes_every_check(call: dict[str, Any]) -> None:
    found = tried(**call)
    assert [each.check for each in found] == [check.name for check in CHECKS]
    assert not [each for each in found if each.refusal]


@pytest.mark.parametrize(
    ("given", "call", "check"),
    [
        ({}, {"path": f"{BASE}/nothing"}, CheckName.ROUTE),
        ({}, {"method": "DELETE"}, CheckName.ROUTE),
        ({"revoked": True}, {}, CheckName.CREDENTIALS),
        ({"deployment_id": "dep_2"}, {}, CheckName.CREDENTIALS),
        ({}, {"at_ms": NINE + 2 * 86_400_000}, CheckName.CREDENTIALS),
        ({}, {"address": "198.51.100.1"}, CheckName.SOURCE),
        ({}, {"address": ""}, CheckName.SOURCE),
        ({}, {"at_ms": NINE + 9 * 3_600_000}, CheckName.HOUR),
        ({"scopes": [SCOPE_RUNS_CREATE]}, {}, CheckName.SCOPE),
    ],
)
def test_the_check_that_would_refuse_is_the_last(given: dict[str, Any], call: dict[str, Any], check: CheckName) -> None:
    found = tried(key(**given), **call)
    assert found[-1].check is check
    assert found[-1].refusal is not None
    assert found[-1].refusal.code in REFUSALS[check]


def test_a_deployment_that_is_not_governed_serves_no_key() -> None:
    assert tried(mirror=KeyMirror(deployment_id="dep_1"))[-1].check is CheckName.DEPLOYMENT


def test_a_route_for_everybody_asks_for_no_key() -> None:
    without_key = [check.name for check in CHECKS if check.order == 0]
    assert [each.check for each in tried(key(revoked=True), path=f"{BASE}/health")] == without_key
