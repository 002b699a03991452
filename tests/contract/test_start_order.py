"""The order of checks inside a start: each request holds a fault and every later one. (contract 12.6)"""

import uuid
from typing import Any

import pytest

from tests.contract.conftest import NewCaller
from tests.support.client import Caller
from tests.support.expect import refused
from tests.support.wire import Answer

BAD_PARAMETERS: dict[str, Any] = {"parameters": {"number": "x"}}
BAD_POLICY: dict[str, Any] = {"pii_policy_override": {"mode": "none"}}
NO_VERSION: dict[str, Any] = {"version": 99}


@pytest.fixture
def full(new_caller: NewCaller, flows: dict[str, str]) -> Caller:
    """A caller whose slots and daily quota are both full."""
    caller = new_caller(max_concurrent_runs=1, daily_run_quota=1)
    caller.parked(flows["Park"])
    return caller


def test_validation_comes_before_the_idempotency_record(full: Caller, flows: dict[str, str]) -> None:
    key = uuid.uuid4().hex
    full.start("wf_none", key)
    answer = full.start("wf_none", key, version="x")
    assert answer.code == "invalid_request"


def test_the_idempotency_record_comes_before_the_workflow(full: Caller) -> None:
    key = uuid.uuid4().hex
    refused(full.start("wf_none", key), 404, "workflow_not_found")
    refused(full.start("wf_other", key, **NO_VERSION), 409, "idempotency_conflict")


FAULTS: dict[str, tuple[str, dict[str, Any], tuple[int, str]]] = {
    "workflow": ("wf_none", {**NO_VERSION, **BAD_PARAMETERS, **BAD_POLICY}, (404, "workflow_not_found")),
    "active": ("Withdrawn", {**NO_VERSION, **BAD_PARAMETERS, **BAD_POLICY}, (409, "workflow_not_active")),
    "version": ("Unstaffed", {**NO_VERSION, **BAD_PARAMETERS, **BAD_POLICY}, (422, "version_not_found")),
    "ready": ("Unstaffed", {**BAD_PARAMETERS, **BAD_POLICY}, (409, "workflow_not_ready")),
    "parameters": ("Sleep", {"parameters": {"seconds": "x"}, **BAD_POLICY}, (400, "invalid_parameters")),
    "policy": ("Sleep", BAD_POLICY, (400, "invalid_pii_policy")),
    "slot": ("Sleep", {}, (429, "too_many_active_runs")),
}


@pytest.mark.parametrize("check", FAULTS)
def test_each_check_of_a_start_beats_every_later_one(full: Caller, flows: dict[str, str], check: str) -> None:
    """The licence is tested in test_licence.py, which has a service for it."""
    workflow, fields, expected = FAULTS[check]
    answer: Answer = full.start(flows.get(workflow, workflow), **fields)
    assert (answer.status, answer.code) == expected, answer


def test_the_daily_quota_comes_last(new_caller: NewCaller, flows: dict[str, str]) -> None:
    caller = new_caller(daily_run_quota=1)
    caller.started(flows["Park"])
    answer = caller.start(flows["Sleep"], **BAD_POLICY)
    assert answer.code == "invalid_pii_policy"
    refused(caller.start(flows["Sleep"]), 429, "quota_exceeded")
