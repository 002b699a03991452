import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import grpc.aio
import pytest

from backend.common.secrets import Secrets
from workflow_api.v1 import (
    audit_pb2,
    audit_pb2_grpc,
    caller_pb2,
    caller_pb2_grpc,
    edge_pb2,
    edge_pb2_grpc,
    keys_pb2,
    keys_pb2_grpc,
    options_pb2,
    outputs_pb2,
    outputs_pb2_grpc,
    runs_pb2,
    runs_pb2_grpc,
    workflows_pb2,
    workflows_pb2_grpc,
)
from workflow_api_testing import RefusedError, TestBackend, refusal_of, response_of, responses_of, test_backend
from workflow_api_testing.calls import method_named, methods
from workflow_api_testing.scripted_runs import ScriptError


@pytest.fixture
def backend() -> Iterator[TestBackend]:
    with test_backend() as backend:
        yield backend


def start(backend: TestBackend, workflow_id: str, idempotency_key: str = "order-1") -> str:
    runs = backend.stub(runs_pb2_grpc.RunsServiceStub, key=backend.add_key())
    request = runs_pb2.StartRunRequest(workflow_id=workflow_id, idempotency_key=idempotency_key)
    return runs.StartRun(request).run.summary.run_id


def test_every_rpc_is_served_as_in_production(backend: TestBackend) -> None:
    assert backend.composition.handlers.keys() == methods().keys()


def test_a_stub_acts_for_its_key_alone(backend: TestBackend) -> None:
    run_id = start(backend, backend.add_workflow())
    request = runs_pb2.GetRunRequest(run_id=run_id)
    with pytest.raises(grpc.RpcError) as refused:
        backend.stub(runs_pb2_grpc.RunsServiceStub, key=backend.add_key()).GetRun(request)
    assert refusal_of(refused.value).reason == "RUN_NOT_FOUND"
    assert backend.stub(runs_pb2_grpc.RunsServiceStub).GetRun(request).summary.run_id == run_id


def test_a_key_reaches_the_workflows_named_and_has_the_fields_given(backend: TestBackend) -> None:
    one, _ = backend.add_workflow("One"), backend.add_workflow("Two")
    key = backend.add_key(scopes=[options_pb2.SCOPE_WORKFLOWS_READ], workflows=[one], daily_run_quota=3)
    listed = backend.stub(workflows_pb2_grpc.WorkflowsServiceStub, key=key).ListWorkflows(
        workflows_pb2.ListWorkflowsRequest()
    )
    me = backend.stub(caller_pb2_grpc.CallerServiceStub, key=key.key_id).GetMe(caller_pb2.GetMeRequest())
    assert [item.workflow_id for item in listed.items] == [one]
    assert me.daily_run_quota == 3


def test_changes_are_audited_for_the_actor_of_the_stub(backend: TestBackend) -> None:
    keys = backend.stub(keys_pb2_grpc.KeysServiceStub, actor="billing")
    keys.CreateKey(keys_pb2.CreateKeyRequest(name="a", scopes=[options_pb2.SCOPE_RUNS_READ]))
    records = backend.stub(audit_pb2_grpc.AuditServiceStub).ListAuditRecords(audit_pb2.ListAuditRecordsRequest())
    assert records.items[0].actor == "billing"


def test_times_are_those_of_the_clock(backend: TestBackend) -> None:
    key = backend.add_key(name="short")
    backend.clock.advance(days=89, hours=23, seconds=1)
    records = backend.stub(keys_pb2_grpc.KeysServiceStub)
    assert records.GetKey(keys_pb2.GetKeyRequest(key_id=key.key_id)).state == "active"
    backend.clock.advance(hours=1)
    assert records.GetKey(keys_pb2.GetKeyRequest(key_id=key.key_id)).state == "expired"


def test_invalid_manifests_are_told_with_every_problem(backend: TestBackend) -> None:
    with pytest.raises(ScriptError, match=r"result\.step must name a step.* steps\[1\]\.needs\[0\] must"):
        backend.add_workflow(steps=[{"step": "a", "agent": "x"}, {"step": "b", "agent": "x", "needs": ["c"]}])


def test_settings_take_the_place_of_the_defaults() -> None:
    with test_backend(deployment_id="plant-7", secrets=Secrets({"token": "value"})) as backend:
        assert backend.composition.services.deployment_id == "plant-7"


def test_backends_share_nothing_and_leave_nothing(backend: TestBackend) -> None:
    with test_backend() as other:
        other.add_workflow()
        folder = Path(other.address.removeprefix("unix:")).parent
        stub = backend.stub(workflows_pb2_grpc.WorkflowsServiceStub)
        assert not stub.ListWorkflows(workflows_pb2.ListWorkflowsRequest()).items
    assert not folder.exists()


def test_an_open_stream_ends_with_the_backend() -> None:
    with test_backend() as backend:
        watch = backend.stub(edge_pb2_grpc.EdgeServiceStub).WatchKeyMirror(edge_pb2.WatchKeyMirrorRequest())
        next(watch)
        ended = threading.Event()
        watch.add_callback(ended.set)
    assert ended.wait(30)


async def _get(address: str, run_id: str) -> runs_pb2.Run:
    async with grpc.aio.insecure_channel(address) as channel:
        return await runs_pb2_grpc.RunsServiceStub(channel).GetRun(runs_pb2.GetRunRequest(run_id=run_id))


def test_callers_open_channels_of_their_own_also_async_ones(backend: TestBackend) -> None:
    import asyncio

    run_id = start(backend, backend.add_workflow())
    assert asyncio.run(_get(backend.address, run_id)).summary.run_id == run_id


def test_grpc_testing_sees_refusals_as_they_are_in_production(backend: TestBackend) -> None:
    request = runs_pb2.GetRunRequest(run_id="x" * 129)
    rpc = backend.server.invoke_unary_unary(method_named("GetRun"), (), request, None)
    with pytest.raises(RefusedError) as refused:
        response_of(rpc)
    with pytest.raises(grpc.RpcError) as by_stub:
        backend.stub(runs_pb2_grpc.RunsServiceStub).GetRun(request)
    assert refused.value.refusal == refusal_of(by_stub.value)
    assert refused.value.refusal.code is grpc.StatusCode.INVALID_ARGUMENT
    assert refused.value.refusal.fields == {"run_id": "must be at most 128 characters"}


def test_grpc_testing_drains_unary_and_streaming_calls(backend: TestBackend) -> None:
    run_id = start(backend, backend.add_workflow())
    backend.finish_run(run_id, outputs={"report.csv": b"a,b\n"})
    listed = response_of(
        backend.server.invoke_unary_unary(
            method_named("ListOutputs"), (), outputs_pb2.ListOutputsRequest(run_id=run_id), None
        )
    )
    [output] = [item for item in listed.items if item.name == "report.csv"]
    request = outputs_pb2.GetOutputContentRequest(run_id=run_id, output_id=output.output_id)
    messages = responses_of(backend.server.invoke_unary_stream(method_named("GetOutputContent"), (), request, None))
    stub = backend.stub(outputs_pb2_grpc.OutputsServiceStub)
    assert messages == list(stub.GetOutputContent(request))
    assert b"".join(message.data for message in messages) == b"a,b\n"


def test_a_refused_stream_is_told_when_it_is_drained(backend: TestBackend) -> None:
    request = outputs_pb2.GetOutputContentRequest(run_id="run_none", output_id="out_none")
    rpc = backend.server.invoke_unary_stream(method_named("GetOutputContent"), (), request, None)
    with pytest.raises(RefusedError, match="NOT_FOUND"):
        responses_of(rpc)


def test_a_certified_stub_may_call_what_its_identity_was_given() -> None:
    identities = {"dns:reports": ["/workflow_api.v1.RunsService/ListRuns"], "uri:spiffe://a/runs": ["runs"]}
    with test_backend(identities=identities) as backend:
        run_id = start(backend, backend.add_workflow())
        request = runs_pb2.GetRunRequest(run_id=run_id)
        run = backend.stub(runs_pb2_grpc.RunsServiceStub, identity="uri:spiffe://a/runs").GetRun(request)
        assert run.summary.run_id == run_id
        reports = backend.stub(runs_pb2_grpc.RunsServiceStub, identity="dns:reports")
        assert len(reports.ListRuns(runs_pb2.ListRunsRequest()).items) == 1
        for name in ("dns:reports", "dns:stranger"):
            with pytest.raises(grpc.RpcError) as refused:
                backend.stub(runs_pb2_grpc.RunsServiceStub, identity=name).GetRun(request)
            assert refusal_of(refused.value).code is grpc.StatusCode.PERMISSION_DENIED


def test_a_certified_stub_acts_for_a_key_only_where_it_may() -> None:
    rpc = "/workflow_api.v1.RunsService/ListRuns"
    identities = {"dns:broker": [rpc, "act-for-keys"], "dns:reports": [rpc]}
    with test_backend(identities=identities) as backend:
        key, request = backend.add_key(), runs_pb2.ListRunsRequest()
        assert not backend.stub(runs_pb2_grpc.RunsServiceStub, identity="dns:broker", key=key).ListRuns(request).items
        for name, given in (("dns:broker", None), ("dns:reports", key)):
            with pytest.raises(grpc.RpcError, match="key"):
                backend.stub(runs_pb2_grpc.RunsServiceStub, identity=name, key=given).ListRuns(request)
