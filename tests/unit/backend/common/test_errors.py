import re

import grpc
import pytest
from google.rpc import error_details_pb2

from backend.common.errors import ApiError
from contract.refusals import BY_REASON, ErrorRule, refusal_from_status
from workflow_api.v1 import errors_pb2

GRPC_CODES = {code.value[0] for code in grpc.StatusCode}


@pytest.mark.parametrize("reason", sorted(BY_REASON))
def test_every_reason_has_an_http_status_a_grpc_code_and_a_message(reason: errors_pb2.ErrorReason.ValueType) -> None:
    rules = BY_REASON[reason]
    assert 400 <= rules.http_status <= 503
    assert rules.grpc_code in GRPC_CODES - {0}
    assert rules.message
    status = ApiError(reason).to_status()
    assert (status.code, status.message) == (rules.grpc_code, rules.message)
    info = error_details_pb2.ErrorInfo.FromString(status.details[0].value)
    assert (info.domain, "ERROR_REASON_" + info.reason) == ("workflow-api", errors_pb2.ErrorReason.Name(reason))


def test_an_error_is_serialised_the_same_each_time() -> None:
    def make() -> bytes:
        metadata = {name: name for name in "abcdefgh"}
        error = ApiError(errors_pb2.ERROR_REASON_LICENSE_UNAVAILABLE, metadata=metadata)
        return error.to_status().SerializeToString(deterministic=True)

    assert make() == make()


def test_the_retry_delay_travels_as_retry_info() -> None:
    status = ApiError(errors_pb2.ERROR_REASON_TOO_MANY_ACTIVE_RUNS).to_status()
    assert error_details_pb2.RetryInfo.FromString(status.details[-1].value).retry_delay.seconds == 5


@pytest.mark.parametrize("reason", sorted(BY_REASON))
def test_an_error_is_the_same_refusal_in_one_process_and_over_the_wire(
    reason: errors_pb2.ErrorReason.ValueType,
) -> None:
    metadata = {name: f"{name} of ü/x" for rule in BY_REASON.values() for name in metadata_names(rule)}
    for error in (
        ApiError(reason, metadata=metadata),
        ApiError(
            reason,
            "why it was refused",
            problems=[("name", "must be another"), ("other", "")],
            metadata={**metadata, "size": "12"},
            reasons=["first", "second"],
            retry_after=7,
        ),
    ):
        here, there = error.to_refusal(), refusal_from_status(error.to_status())
        assert vars(here) == vars(there)


def metadata_names(rule: ErrorRule) -> set[str]:
    links = [detail.link for detail in rule.details if detail.link]
    return {detail.name for detail in rule.details} | {name for link in links for name in re.findall(r"{(\w+)}", link)}
