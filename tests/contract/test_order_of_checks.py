"""Order of checks: each beats every later one, tried in pairs on the start of a run. (contract 5.1)"""

import itertools
import json
import time
from dataclasses import dataclass
from typing import Any

import pytest

from tests.contract.conftest import NewCaller
from tests.support.admin import SCOPES
from tests.support.client import Caller, call
from tests.support.poll import within_one_minute
from tests.support.wire import BASE, Answer, Wire, request

# In the order of the checks. The 503 of order 1 is tested in test_deployment_flags.py, which has a service for it.
FAULTS = (
    "payload_too_large",
    "not_found",
    "malformed_json",
    "unauthorized",
    "source_forbidden",
    "outside_time_window",
    "rate_limited",
    "scope_forbidden",
    "invalid_request",
    "workflow_not_found",
)
EXPECTED = {
    "payload_too_large": (413, "payload_too_large"),
    "not_found": (404, "not_found"),
    "malformed_json": (400, "invalid_request"),
    "unauthorized": (401, "unauthorized"),
    "source_forbidden": (403, "forbidden"),
    "outside_time_window": (403, "outside_time_window"),
    "rate_limited": (429, "rate_limited"),
    "scope_forbidden": (403, "forbidden"),
    "invalid_request": (400, "invalid_request"),
    "workflow_not_found": (404, "workflow_not_found"),
}


@dataclass(frozen=True)
class FaultyStart:
    """A start of a run with these faults in it."""

    faults: frozenset[str]
    workflow_id: str

    def key_properties(self) -> dict[str, Any]:
        hour = time.gmtime().tm_hour
        properties: dict[str, Any] = {}
        if "source_forbidden" in self.faults:
            properties["source_allow_list"] = ["10.0.0.0/8"]
        if "outside_time_window" in self.faults:
            properties["hours"] = ((hour + 2) % 24, (hour + 3) % 24)
        if "rate_limited" in self.faults:
            properties["rate_limit_rpm"] = 1
        if "scope_forbidden" in self.faults:
            properties["scopes"] = [scope for scope in SCOPES if scope != "runs:create"]
        return properties

    def send(self, caller: Caller) -> Answer:
        headers = {} if "invalid_request" in self.faults else {"Idempotency-Key": "key"}
        headers |= caller.credentials
        if "unauthorized" in self.faults:
            headers["Authorization"] += "x"
        workflow_id = "wf_none" if "workflow_not_found" in self.faults else self.workflow_id
        path = f"/workflows/{workflow_id}/runs" + ("/none" if "not_found" in self.faults else "")
        body = b"{" if "malformed_json" in self.faults else json.dumps({}).encode()
        if "payload_too_large" in self.faults:
            with Wire(caller.address) as wire:
                wire.send(request("POST", path, *headers.items(), ("Content-Length", str(2 << 20)), body=body))
                return wire.answer()
        return call(caller.address, "POST", BASE + path, headers, body)


@pytest.mark.parametrize(("first", "later"), list(itertools.combinations(FAULTS, 2)))
def test_the_first_failure_stops(new_caller: NewCaller, flows: dict[str, str], first: str, later: str) -> None:
    start = FaultyStart(frozenset({first, later}), flows["Park"])

    def attempt() -> Answer:
        caller = new_caller(**start.key_properties())
        # A key with one request a minute has none left once it has reached the count.
        caller.get("/me")
        return start.send(caller)

    answer = within_one_minute(attempt)
    assert (answer.status, answer.code) == EXPECTED[first], answer


def test_a_path_fault_and_a_wrong_method_beat_malformed_json(resident: Caller) -> None:
    assert resident.call("PUT", "/workflows/wf_none/runs", body=b"{").status == 405


def test_source_refusals_and_closed_hours_are_not_counted_by_the_rate_limit(new_caller: NewCaller) -> None:
    hour = time.gmtime().tm_hour
    for properties in (
        {"source_allow_list": ["10.0.0.0/8"]},
        {"hours": ((hour + 2) % 24, (hour + 3) % 24)},
    ):
        caller = new_caller(rate_limit_rpm=1, **properties)
        assert {caller.get("/me").status for _ in range(4)} == {403}
