"""Usage records of calls. (contract 27)"""

from typing import Any

from tests.contract.conftest import NewCaller
from tests.support.admin import Admin
from tests.support.client import Caller
from tests.support.poll import until
from tests.support.service import Service
from workflow_api.v1 import usage_pb2


def record_of(admin: Admin, request_id: str, key_id: str | None) -> Any:
    """The usage record of a request, once its batch has been written."""

    def found() -> Any:
        listed = admin.usage.ListUsageRecords(usage_pb2.ListUsageRecordsRequest(key_id=key_id, page_size=1000)).items
        return next((record for record in listed if record.request_id == request_id), None)

    return until(found, f"the usage record of {request_id}", every=0.1)


def fields_of(record: Any) -> tuple[str, str, int, str, str]:
    return record.method, record.route, record.status, record.reason, record.address


def test_refusals_after_identification_are_recorded_against_the_key(new_caller: NewCaller, admin: Admin) -> None:
    caller = new_caller(scopes=["runs:delete"], rate_limit_rpm=2)
    forbidden = caller.get("/runs/x")
    limited = next(answer for answer in (caller.get("/me") for _ in range(9)) if answer.status == 429)
    record = record_of(admin, forbidden.headers["X-Request-Id"], caller.key_id)
    assert fields_of(record) == ("GET", "/runs/{run_id}", 403, "forbidden", "127.0.0.1")
    record = record_of(admin, limited.headers["X-Request-Id"], caller.key_id)
    assert fields_of(record) == ("GET", "/me", 429, "rate_limited", "127.0.0.1")


def test_source_and_hour_refusals_are_recorded_against_the_key(new_caller: NewCaller, admin: Admin) -> None:
    caller = new_caller(source_allow_list=["10.0.0.0/8"])
    answer = caller.get("/runs")
    record = record_of(admin, answer.headers["X-Request-Id"], caller.key_id)
    assert fields_of(record) == ("GET", "/runs", 403, "forbidden", "127.0.0.1")


def test_successes_and_domain_refusals_are_recorded_too(caller: Caller, admin: Admin) -> None:
    success, refusal = caller.get("/me"), caller.get("/runs/none")
    record = record_of(admin, success.headers["X-Request-Id"], caller.key_id)
    assert fields_of(record) == ("GET", "/me", 200, "", "127.0.0.1")
    record = record_of(admin, refusal.headers["X-Request-Id"], caller.key_id)
    assert fields_of(record) == ("GET", "/runs/{run_id}", 404, "run_not_found", "127.0.0.1")


def test_refusals_before_identification_are_not_recorded_against_a_key(
    caller: Caller, admin: Admin, service: Service
) -> None:
    wrong = service.call("GET", "/me", {**caller.credentials, "X-Service-Key-External-Id": "ake_" + "0" * 32})
    assert wrong.status == 401
    after = caller.get("/me")
    record_of(admin, after.headers["X-Request-Id"], caller.key_id)
    listed = admin.usage.ListUsageRecords(usage_pb2.ListUsageRecordsRequest(key_id=caller.key_id, page_size=1000)).items
    assert wrong.headers["X-Request-Id"] not in {record.request_id for record in listed}
