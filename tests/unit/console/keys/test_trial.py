import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from console.keys.trial import explanation, route_choices, verdicts
from contract.call_trials import TrialCall
from contract.routes import BASE
from contract.times import to_timestamp
from edge.admission.trial import try_call
from tests.unit.console.recorded_services import key_record
from workflow_api.v1.deployment_pb2 import Deployment
from workflow_api.v1.keys_pb2 import AllowedHours
from workflow_api.v1.usage_pb2 import UsageRecord

MADE = 1_000_000_000_000
EVENING = round(datetime(2001, 9, 9, 19, 3, tzinfo=UTC).timestamp() * 1000)
OPEN = Deployment(deployment_id="dep_1", governed=True, api_enabled=True)


def why(deployment: Deployment = OPEN, call: dict[str, Any] | None = None, **record: Any) -> str:
    tried = TrialCall("GET", f"{BASE}/workflows", "203.0.113.7", EVENING)._replace(**(call or {}))
    return asyncio.run(verdicts(key_record(**record), deployment, tried, try_call))[-1].why


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"allowed_hours": AllowedHours(start_hour=8, end_hour=18)}, "19:03 is outside 08:00 to 18:00 UTC."),
        ({"source_allow_list": ["10.0.0.0/8", "::1/128"]}, "203.0.113.7 is not in 10.0.0.0/8, ::1/128."),
        ({"state": "revoked", "revoked_at": to_timestamp(MADE)}, "The key was revoked at 2001-09-09 01:46:40 UTC."),
        ({}, ""),
    ],
)
def test_a_refusal_names_the_values_that_decide_it(record: dict[str, Any], words: str) -> None:
    assert why(**record) == words


def test_a_refusal_for_a_scope_names_what_the_route_requires_and_what_the_key_has() -> None:
    assert why(call={"path": f"{BASE}/runs"}) == "The route requires runs:read; the key has workflows:read."


def test_a_refusal_for_the_deployment_or_the_expiry_is_in_words() -> None:
    assert why(Deployment(deployment_id="dep_1")) == "The deployment is not governed, and serves no key."
    assert why(Deployment(deployment_id="dep_2", governed=True, api_enabled=True)) == (
        "The key is bound to the deployment dep_1, not to this one."
    )
    assert why(call={"at_ms": MADE + 91 * 86_400_000}).startswith("The key expired at 2001-12-08")


def test_a_recorded_refusal_is_explained_by_the_checks() -> None:
    used = UsageRecord(
        at=to_timestamp(EVENING), method="GET", route="/runs/{run_id}", address="203.0.113.7", status=403
    )
    assert asyncio.run(explanation(key_record(), OPEN, used, try_call)) == (
        "The route requires runs:read; the key has workflows:read."
    )


def test_every_route_may_be_chosen() -> None:
    assert ("POST /workflows/{workflow_id}/runs",) * 2 in route_choices()
