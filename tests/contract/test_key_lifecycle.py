"""The life cycle of a key as calls see it. (contract 9.6)"""

import dataclasses
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from tests.contract.conftest import NewCaller
from tests.support.admin import Admin, workflow_access
from tests.support.client import Caller
from tests.support.expect import refused
from tests.support.poll import until
from tests.support.service import Service
from workflow_api.v1 import keys_pb2


def answers(caller: Caller, status: int) -> None:
    until(lambda: caller.get("/me").status == status, f"{status} for {caller.key_id}")


def rotate(admin: Admin, caller: Caller) -> Caller:
    made = admin.keys.RotateKey(keys_pb2.RotateKeyRequest(key_id=caller.key_id, overlap=Duration(seconds=3_600)))
    assert made.record.state == "rotating"
    assert made.record.key.key_id == caller.key_id
    assert made.external_id == ""
    return dataclasses.replace(caller, key=made.key_value)


def test_both_secrets_work_during_the_overlap(caller: Caller, admin: Admin) -> None:
    rotated = rotate(admin, caller)
    assert rotated.key != caller.key
    answers(rotated, 200)
    assert caller.get("/me").status == 200
    assert rotated.get("/me").json()["key_id"] == caller.key_id


def test_rotating_again_ends_the_older_overlap(caller: Caller, admin: Admin) -> None:
    second = rotate(admin, caller)
    third = rotate(admin, second)
    answers(third, 200)
    answers(caller, 401)
    assert second.get("/me").status == 200


def test_a_new_external_id_stops_the_old_one_and_keeps_the_secret(caller: Caller, admin: Admin) -> None:
    made = admin.keys.IssueExternalId(keys_pb2.IssueExternalIdRequest(key_id=caller.key_id))
    renewed = dataclasses.replace(caller, external_id=made.external_id)
    assert made.key_value == ""
    answers(renewed, 200)
    answers(caller, 401)


def test_a_revoked_key_fails_everywhere_for_good(caller: Caller, admin: Admin, flows: dict[str, str]) -> None:
    run_id = caller.finished(flows["Silence"])["run_id"]
    admin.keys.RevokeKey(keys_pb2.RevokeKeyRequest(key_id=caller.key_id))
    answers(caller, 401)
    for path in ("/me", "/runs", f"/runs/{run_id}", "/workflows"):
        refused(caller.get(path), 401, "unauthorized")
    with pytest.raises(grpc.RpcError):
        admin.keys.RotateKey(keys_pb2.RotateKeyRequest(key_id=caller.key_id))
    assert caller.get("/me").status == 401


def test_a_revoked_key_can_be_deleted_and_an_active_one_cannot(
    new_caller: NewCaller, admin: Admin, service: Service
) -> None:
    caller = new_caller()
    with pytest.raises(grpc.RpcError):
        admin.keys.DeleteKey(keys_pb2.DeleteKeyRequest(key_id=caller.key_id))
    assert caller.get("/me").status == 200
    admin.keys.RevokeKey(keys_pb2.RevokeKeyRequest(key_id=caller.key_id))
    admin.keys.DeleteKey(keys_pb2.DeleteKeyRequest(key_id=caller.key_id))
    answers(caller, 401)
    listed = admin.keys.ListKeys(keys_pb2.ListKeysRequest()).items
    assert caller.key_id not in {record.key.key_id for record in listed}


def test_an_edit_is_visible_in_me_with_the_same_credentials(
    caller: Caller, admin: Admin, flows: dict[str, str]
) -> None:
    edit: dict[str, Any] = {
        "name": "edited",
        "rate_limit_rpm": 9_999,
        "daily_run_quota": 7,
        "max_concurrent_runs": 3,
        "workflow_access": workflow_access([flows["Echo"]]),
    }
    admin.keys.UpdateKey(keys_pb2.UpdateKeyRequest(key_id=caller.key_id, **edit))
    until(lambda: caller.get("/me").json()["name"] == "edited", "the edit")
    me = caller.get("/me").json()
    assert (me["rate_limit_rpm"], me["daily_run_quota"], me["max_concurrent_runs"]) == (9_999, 7, 3)
    assert me["workflow_access"] == {"mode": "explicit", "workflow_ids": [flows["Echo"]]}


def test_an_edited_allow_list_applies(caller: Caller, admin: Admin) -> None:
    closed = keys_pb2.SourceAllowList(ranges=["10.0.0.0/8"])
    admin.keys.UpdateKey(keys_pb2.UpdateKeyRequest(key_id=caller.key_id, source_allow_list=closed))
    answers(caller, 403)
    opened = keys_pb2.SourceAllowList(ranges=[])
    admin.keys.UpdateKey(keys_pb2.UpdateKeyRequest(key_id=caller.key_id, source_allow_list=opened))
    answers(caller, 200)


def test_a_key_of_another_deployment_is_unauthorized(service: Service, new_caller: NewCaller) -> None:
    made = service.admin.create_key(deployment_id="elsewhere")
    foreign = Caller(service.address, made.key_id, made.key, made.external_id)
    # A key made later is known: so was this one.
    new_caller()
    refused(foreign.get("/me"), 401, "unauthorized")


def test_secrets_are_stored_nowhere(caller: Caller, service: Service) -> None:
    """Only SHA-256 hashes are kept; nor does the log hold one."""
    secret = caller.key.split(".", 1)[1]
    for value in (secret, caller.external_id):
        assert service.files_holding(value) == []
        assert service.databases_holding(value) == []
        assert value not in service.log()
