"""The key that a call over plain gRPC names is judged first, on every RPC. (contract 1.10, docs/grpc.md)"""

import uuid
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from contract.metadata import ACTOR, KEY_ID, PERSON
from workflow_api.v1 import runs_pb2
from workflow_api.v1.audit_pb2 import ListAuditRecordsRequest
from workflow_api.v1.audit_pb2_grpc import AuditServiceStub
from workflow_api.v1.caller_pb2 import GetMeRequest
from workflow_api.v1.caller_pb2_grpc import CallerServiceStub
from workflow_api.v1.keys_pb2 import DeleteKeyRequest, ListKeysRequest, RevokeKeyRequest
from workflow_api.v1.keys_pb2_grpc import KeysServiceStub
from workflow_api.v1.runs_pb2_grpc import RunsServiceStub
from workflow_api_testing import TestBackend, refusal_of
from workflow_api_testing.calls import services

RPCS = {f"{service.name}.{method.name}": method for service in services() for method in service.methods}
REFUSED: dict[str, tuple[tuple[tuple[str, str], ...], grpc.StatusCode]] = {
    "an empty key id": (((KEY_ID, ""),), grpc.StatusCode.INVALID_ARGUMENT),
    "a blank key id": (((KEY_ID, " "),), grpc.StatusCode.INVALID_ARGUMENT),
    "a key id of two words": (((KEY_ID, "ak_0123456789ab ak_ba9876543210"),), grpc.StatusCode.INVALID_ARGUMENT),
    "a repeated key id": (((KEY_ID, "ak_0123456789ab"),) * 2, grpc.StatusCode.INVALID_ARGUMENT),
    "an empty key id before another": (((KEY_ID, ""), (KEY_ID, "ak_0123456789ab")), grpc.StatusCode.INVALID_ARGUMENT),
    "a repeated actor": (((ACTOR, "kim"), (ACTOR, "lee")), grpc.StatusCode.INVALID_ARGUMENT),
    "a repeated person": (((PERSON, "kim"), (PERSON, "lee")), grpc.StatusCode.INVALID_ARGUMENT),
    "an unknown key id": (((KEY_ID, "ak_ffffffffffff"),), grpc.StatusCode.UNAUTHENTICATED),
    "a key id of no key's form": (((KEY_ID, "nobody"),), grpc.StatusCode.UNAUTHENTICATED),
}


def called(channel: grpc.Channel, method: MethodDescriptor, metadata: Any) -> grpc.StatusCode:
    assert method.containing_service is not None
    path = f"/{method.containing_service.full_name}/{method.name}"
    request, answer = GetMessageClass(method.input_type)(), GetMessageClass(method.output_type)
    serialize, parse = request.__class__.SerializeToString, answer.FromString
    refused: pytest.ExceptionInfo[grpc.RpcError]
    if method.server_streaming:
        stream: Any = channel.unary_stream(path, serialize, parse)(request, metadata=metadata, timeout=60)
        with pytest.raises(grpc.RpcError) as refused:
            next(stream)
    else:
        call: Any = channel.unary_unary(path, serialize, parse)
        with pytest.raises(grpc.RpcError) as refused:
            call(request, metadata=metadata, timeout=60)
    code: grpc.StatusCode = refused.value.code()
    return code


@pytest.mark.parametrize("what", REFUSED)
def test_every_rpc_refuses_a_call_whose_key_cannot_be_named_before_anything_else(
    backend: TestBackend, what: str
) -> None:
    metadata, code = REFUSED[what]
    with grpc.insecure_channel(backend.address) as channel:
        codes = {rpc: called(channel, method, metadata) for rpc, method in RPCS.items()}
    assert codes == dict.fromkeys(RPCS, code)


def test_a_key_is_known_from_its_creation_to_its_deletion(backend: TestBackend) -> None:
    keys, caller = backend.stub(KeysServiceStub), backend.stub(CallerServiceStub)
    key_id = backend.add_key().key_id
    assert caller.GetMe(GetMeRequest(), metadata=((KEY_ID, key_id),)).key_id == key_id
    keys.RevokeKey(RevokeKeyRequest(key_id=key_id))
    keys.DeleteKey(DeleteKeyRequest(key_id=key_id))
    with grpc.insecure_channel(backend.address) as channel:
        assert called(channel, RPCS["RunsService.GetRun"], ((KEY_ID, key_id),)) is grpc.StatusCode.UNAUTHENTICATED


def test_a_start_with_an_empty_key_id_starts_nothing(backend: TestBackend) -> None:
    runs = backend.stub(RunsServiceStub)
    start = runs_pb2.StartRunRequest(workflow_id=backend.add_workflow("Empty"), idempotency_key=uuid.uuid4().hex)
    with pytest.raises(grpc.RpcError):
        runs.StartRun(start, metadata=((KEY_ID, ""),))
    assert list(runs.ListRuns(runs_pb2.ListRunsRequest(workflow_id=start.workflow_id)).items) == []


@pytest.mark.parametrize(
    ("sent", "named"),
    [
        ("user:J%C3%BCrgen", "user:Jürgen"),
        ("user:100%25", "user:100%"),
        ("user:100%", "user:100%"),
        ("user:kim", "user:kim"),
    ],
)
def test_an_actor_beyond_ascii_is_percent_encoded_and_named_as_it_is(
    backend: TestBackend, sent: str, named: str
) -> None:
    keys = backend.stub(KeysServiceStub)
    key_id = backend.add_key().key_id
    keys.RevokeKey(RevokeKeyRequest(key_id=key_id), metadata=((ACTOR, sent),))
    [record] = (
        backend.stub(AuditServiceStub).ListAuditRecords(ListAuditRecordsRequest(target=key_id, actor=named)).items
    )
    assert (record.action, record.actor) == ("key.revoked", named)


@pytest.mark.parametrize("sent", ["user:%FF", "user:%00", "user:a%0Ab", "user:%E2%80%AE"])
def test_an_actor_whose_escapes_are_no_printable_text_is_refused(backend: TestBackend, sent: str) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        backend.stub(KeysServiceStub).ListKeys(ListKeysRequest(), metadata=((ACTOR, sent),))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert refusal_of(refused.value).fields.keys() == {ACTOR}


def test_a_stub_of_the_test_backend_encodes_its_actor(backend: TestBackend) -> None:
    key_id = backend.add_key().key_id
    backend.stub(KeysServiceStub, actor="user:Zoë 50%").RevokeKey(RevokeKeyRequest(key_id=key_id))
    records = backend.stub(AuditServiceStub).ListAuditRecords(ListAuditRecordsRequest(target=key_id)).items
    assert "user:Zoë 50%" in {record.actor for record in records}
