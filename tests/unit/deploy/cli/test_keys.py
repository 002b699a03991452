import os
import pwd

import pytest
from google.protobuf.duration_pb2 import Duration

from backend.common.errors import ApiError
from contract.times import to_timestamp
from tests.unit.deploy.fake_backend import FakeBackend, command
from workflow_api.v1 import errors_pb2, keys_pb2, options_pb2, usage_pb2

KEY_ID = "ak_0123456789ab"


@pytest.fixture
def key() -> keys_pb2.KeyRecord:
    key = keys_pb2.KeyRecord(state="active", source_allow_list=["10.0.0.0/8"])
    key.allowed_hours.start_hour = 8
    key.allowed_hours.end_hour = 18
    key.key.key_id = KEY_ID
    key.key.name = "billing"
    key.key.scopes.append(options_pb2.SCOPE_RUNS_READ)
    key.key.workflow_access.mode = keys_pb2.WorkflowAccess.MODE_ALL_ACTIVE
    key.key.expires_at.FromJsonString("2026-12-24T00:00:00Z")
    key.key.daily_run_quota = 100
    key.key.max_concurrent_runs = 10
    return key


def test_create_sends_every_property(backend: FakeBackend, key: keys_pb2.KeyRecord) -> None:
    backend.answers["CreateKey"] = keys_pb2.KeyCredentials(record=key, key_value="ak_x.s", external_id="ake_x")

    made = command(
        *("keys", "create", "--name", "billing", "--description", "nightly", "--scopes", "workflows:read, runs:create"),
        *("--workflows", "wf_1,wf_2", "--cidr", "10.0.0.0/8", "--cidr", "2001:db8::/32", "--hours", "22-6"),
        *("--expires-days", "30", "--rpm", "5", "--daily-quota", "6", "--max-concurrent", "7", "--deployment", "plant"),
        *("--grpc", backend.address, "--json"),
    )

    assert made.code == 0, made.err
    assert backend.request("CreateKey") == keys_pb2.CreateKeyRequest(
        name="billing",
        description="nightly",
        scopes=[options_pb2.SCOPE_WORKFLOWS_READ, options_pb2.SCOPE_RUNS_CREATE],
        workflow_access=keys_pb2.WorkflowAccess(
            mode=keys_pb2.WorkflowAccess.MODE_EXPLICIT, workflow_ids=["wf_1", "wf_2"]
        ),
        source_allow_list=["10.0.0.0/8", "2001:db8::/32"],
        allowed_hours=keys_pb2.AllowedHours(start_hour=22, end_hour=6),
        lifetime=Duration(seconds=30 * 86_400),
        rate_limit_rpm=5,
        daily_run_quota=6,
        max_concurrent_runs=7,
        deployment_id="plant",
    )


def test_create_leaves_defaults_to_the_backend(backend: FakeBackend, key: keys_pb2.KeyRecord) -> None:
    backend.answers["CreateKey"] = keys_pb2.KeyCredentials(record=key)

    command("keys", "create", "--name", "n", "--scopes", "runs:read", "--grpc", backend.address)

    expected = keys_pb2.CreateKeyRequest(name="n", scopes=[options_pb2.SCOPE_RUNS_READ])
    assert backend.request("CreateKey") == expected


def test_create_prints_key_and_external_id_first(backend: FakeBackend, key: keys_pb2.KeyRecord) -> None:
    backend.answers["CreateKey"] = keys_pb2.KeyCredentials(record=key, key_value="ak_x.s", external_id="ake_x")

    made = command("keys", "create", "--name", "n", "--scopes", "runs:read", "--grpc", backend.address, "--json")

    assert list(made.json)[:3] == ["key_id", "key", "external_id"]
    assert made.json["key"] == "ak_x.s"
    assert made.json["external_id"] == "ake_x"
    assert made.json["name"] == "billing"
    assert made.json["allowed_hours"] == {"start_hour": 8, "end_hour": 18}
    assert "key_value" not in made.json


def test_rotate_prints_key_alone(backend: FakeBackend, key: keys_pb2.KeyRecord) -> None:
    backend.answers["RotateKey"] = keys_pb2.KeyCredentials(record=key, key_value="ak_x.new")

    rotated = command("keys", "rotate", KEY_ID, "--overlap", "3d", "--grpc", backend.address, "--json")

    assert backend.request("RotateKey") == keys_pb2.RotateKeyRequest(
        key_id=KEY_ID, overlap=Duration(seconds=72 * 3_600)
    )
    assert rotated.json["key"] == "ak_x.new"
    assert "external_id" not in rotated.json


def test_new_external_id_prints_external_id_alone(backend: FakeBackend, key: keys_pb2.KeyRecord) -> None:
    backend.answers["IssueExternalId"] = keys_pb2.KeyCredentials(record=key, external_id="ake_new")

    issued = command("keys", "new-external-id", KEY_ID, "--grpc", backend.address, "--json")

    assert issued.json["external_id"] == "ake_new"
    assert "key" not in issued.json


def test_edit_sends_only_what_is_given(backend: FakeBackend, key: keys_pb2.KeyRecord) -> None:
    backend.answers["UpdateKey"] = key

    command("keys", "edit", KEY_ID, "--rpm", "9", "--grpc", backend.address)

    assert backend.request("UpdateKey") == keys_pb2.UpdateKeyRequest(key_id=KEY_ID, rate_limit_rpm=9)


def test_edit_lifts_restrictions_with_any(backend: FakeBackend, key: keys_pb2.KeyRecord) -> None:
    backend.answers["UpdateKey"] = key

    command("keys", "edit", KEY_ID, "--cidr", "any", "--hours", "any", "--grpc", backend.address)

    assert backend.request("UpdateKey") == keys_pb2.UpdateKeyRequest(
        key_id=KEY_ID, source_allow_list=keys_pb2.SourceAllowList(), clear_allowed_hours=True
    )


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--scopes", "runs:write", "'runs:write' is not a scope; allowed are workflows:read, runs:create"),
        ("--hours", "8", "must be START-END in UTC hours"),
        ("--rpm", "many", "valid integer"),
    ],
)
def test_a_value_of_the_wrong_form_names_option_and_form(option: str, value: str, message: str) -> None:
    refused = command("keys", "edit", KEY_ID, option, value, "--grpc", "127.0.0.1:1")

    assert refused.code == 2
    assert option in refused.err
    assert message in refused.err


def test_every_problem_is_printed_on_a_line_by_the_name_of_its_option(backend: FakeBackend) -> None:
    problems = [("name", "must have 1 to 100 characters"), ("allowed_hours.end_hour", "must be 0 to 23")]
    backend.answers["UpdateKey"] = ApiError(errors_pb2.ERROR_REASON_INVALID_REQUEST, problems=problems)

    refused = command("keys", "edit", KEY_ID, "--name", "", "--grpc", backend.address)

    assert refused.code == 1
    assert refused.err.splitlines() == ["--name: must have 1 to 100 characters", "--hours: must be 0 to 23"]


def test_problems_are_the_details_of_a_json_error(backend: FakeBackend) -> None:
    problems = [("name", "must have 1 to 100 characters")]
    backend.answers["UpdateKey"] = ApiError(errors_pb2.ERROR_REASON_INVALID_REQUEST, problems=problems)

    refused = command("keys", "edit", KEY_ID, "--name", "", "--grpc", backend.address, "--json")

    assert refused.error["code"] == "invalid_request"
    assert refused.error["details"] == [{"name": "name", "reason": "must have 1 to 100 characters"}]


def test_list_without_json_is_a_table(backend: FakeBackend, key: keys_pb2.KeyRecord) -> None:
    backend.answers["ListKeys"] = keys_pb2.ListKeysResponse(items=[key])

    heading, row = command("keys", "list", "--grpc", backend.address).out.splitlines()

    assert heading.startswith("KEY ID")
    assert row.split()[:3] == [KEY_ID, "billing", "active"]


def test_the_details_of_a_key_name_its_restrictions(backend: FakeBackend, key: keys_pb2.KeyRecord) -> None:
    backend.answers["GetKey"] = key

    shown = command("keys", "show", KEY_ID, "--grpc", backend.address).out

    assert "10.0.0.0/8" in shown
    assert "8-18 UTC" in shown


def test_the_actor_is_the_operating_systems_user(backend: FakeBackend) -> None:
    backend.answers["DeleteKey"] = keys_pb2.DeleteKeyResponse()

    deleted = command("keys", "delete", KEY_ID, "--grpc", backend.address, "--json")

    assert deleted.json == {"key_id": KEY_ID, "deleted": True}
    assert backend.metadata["workflow-api-actor"] == pwd.getpwuid(os.geteuid()).pw_name
    assert "workflow-api-key-id" not in backend.metadata


def test_usage_shows_the_newest_calls_of_the_key(backend: FakeBackend) -> None:
    record = usage_pb2.UsageRecord(
        at=to_timestamp(1_790_000_000_000), key_id=KEY_ID, method="GET", route="/me", status=429
    )
    backend.answers["ListUsageHours"] = usage_pb2.ListUsageHoursResponse()
    backend.answers["ListUsageRecords"] = [usage_pb2.ListUsageRecordsResponse(items=[record])] * 2

    shown = command("keys", "usage", KEY_ID, "--limit", "5", "--utc", "--grpc", backend.address)
    as_json = command("keys", "usage", KEY_ID, "--limit", "5", "--grpc", backend.address, "--json")

    assert backend.requests[0][1] == usage_pb2.ListUsageRecordsRequest(key_id=KEY_ID, page_size=5)
    assert "2026-09-21T14:13:20.000+00:00" in shown.out
    assert as_json.json["items"][0]["at"] == "2026-09-21T14:13:20.000+00:00"
    assert as_json.json["items"][0]["reason"] is None


def test_usage_by_hour_shows_the_number_of_calls(backend: FakeBackend) -> None:
    hour = usage_pb2.UsageHour(
        hour=to_timestamp(1_790_000_000_000), key_id=KEY_ID, method="GET", route="/me", status=429, calls=7
    )
    backend.answers["ListUsageHours"] = [usage_pb2.ListUsageHoursResponse(items=[hour])] * 3

    shown = command("keys", "usage", KEY_ID, "--by-hour", "--limit", "5", "--utc", "--grpc", backend.address)
    as_json = command("keys", "usage", KEY_ID, "--by-hour", "--grpc", backend.address, "--json")

    assert backend.requests[0][1] == usage_pb2.ListUsageHoursRequest(key_id=KEY_ID, page_size=5)
    assert "2026-09-21T14:13:20.000+00:00" in shown.out
    assert as_json.json["items"][0]["calls"] == 7
