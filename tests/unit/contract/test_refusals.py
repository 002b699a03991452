import orjson
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, PreconditionFailure, RetryInfo
from google.rpc.status_pb2 import Status

from contract.refusals import BY_CODE, Refusal, envelope, refusal_from_status
from workflow_api.v1.errors_pb2 import ErrorReason


def status(reason: str, *details: Message, message: str = "", domain: str = "workflow-api", **metadata: str) -> Status:
    made = Status(message=message)
    made.details.add().Pack(ErrorInfo(reason=reason, domain=domain, metadata=metadata))
    for detail in details:
        made.details.add().Pack(detail)
    return made


def test_every_reason_but_the_unspecified_has_a_rule() -> None:
    assert len(BY_CODE) == len(ErrorReason.DESCRIPTOR.values) - 1
    assert all(rule.message and 400 <= rule.http_status < 600 for rule in BY_CODE.values())


@pytest.mark.parametrize("code", [code for code in BY_CODE if code != "invalid_request"])
def test_every_reason_keeps_its_status_over_the_wire(code: str) -> None:
    refusal = refusal_from_status(status(code.upper(), run_id="run_1", message="why"))
    assert (refusal.code, refusal.status, refusal.message) == (code, BY_CODE[code].http_status, "why")


def test_envelope_has_code_message_and_request_id_and_no_details_without_information() -> None:
    body = orjson.loads(envelope(Refusal("run_not_found"), "r-1"))
    assert body == {
        "error": {"code": "run_not_found", "message": BY_CODE["run_not_found"].message, "request_id": "r-1"}
    }


def test_an_unexpected_failure_asks_to_quote_the_request_id() -> None:
    assert "quote the request id" in Refusal("internal").message


def test_unauthorized_names_the_scheme() -> None:
    assert Refusal("unauthorized").headers == {"WWW-Authenticate": "Bearer"}


def test_503_carries_retry_after_by_itself() -> None:
    assert Refusal("deployment_updating", details={"reason": "not_enabled"}).headers == {"Retry-After": "60"}


def test_problems_come_from_bad_request() -> None:
    problems = BadRequest(field_violations=[{"field": "limit", "description": "must be from 1 to 100"}])
    assert refusal_from_status(status("INVALID_REQUEST", problems)).details == [
        {"name": "limit", "reason": "must be from 1 to 100"}
    ]


def test_reasons_come_from_precondition_failure() -> None:
    failure = PreconditionFailure(violations=[{"description": "Step 'count' has no agent."}])
    assert refusal_from_status(status("WORKFLOW_NOT_READY", failure)).details == {
        "reasons": ["Step 'count' has no agent."]
    }


def test_licence_details_without_a_value_are_null() -> None:
    refusal = refusal_from_status(status("LICENSE_UNAVAILABLE", state="hold", license_id="lic_1"))
    assert refusal.details == {"state": "hold", "reason": None, "enforcement_status": None, "license_id": "lic_1"}


def test_use_bundle_links_to_the_zip() -> None:
    refusal = refusal_from_status(status("USE_BUNDLE", run_id="run_1"))
    assert refusal.details == {"bundle": "/api/v1/runs/run_1/outputs.zip"}


def test_range_not_satisfiable_states_the_size_in_a_header_only() -> None:
    refusal = refusal_from_status(status("RANGE_NOT_SATISFIABLE", size="100"))
    assert refusal.details is None
    assert refusal.headers == {"Content-Range": "bytes */100"}


def test_retry_info_overrides_the_rule() -> None:
    retry = RetryInfo(retry_delay=Duration(seconds=7))
    assert refusal_from_status(status("TOO_MANY_ACTIVE_RUNS", retry)).headers["Retry-After"] == "7"


@pytest.mark.parametrize(
    "foreign",
    [
        Status(code=2, message="Traceback: secret"),
        status("NO_SUCH_REASON"),
        status("RUN_NOT_FOUND", domain="elsewhere"),
        status("USE_BUNDLE"),
        status("UNSPECIFIED"),
    ],
    ids=["no ErrorInfo", "unknown reason", "other domain", "metadata missing", "unspecified"],
)
def test_a_status_that_is_not_ours_is_runtime_error_and_leaks_nothing(foreign: Status) -> None:
    refusal = refusal_from_status(foreign)
    assert refusal.code == "runtime_error"
    assert "secret" not in refusal.message
