"""Channels with the options of the package repeat calls that the protos declare repeatable, and no others."""

import json
import threading
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pb2 import MethodOptions

from backend.rpc.server import GrpcServer
from contract.routes import METHODS
from tests.support.poll import until
from workflow_api.v1 import keys_pb2, runs_pb2
from workflow_api.v1.keys_pb2_grpc import KeysServiceStub
from workflow_api.v1.runs_pb2_grpc import RunsServiceStub
from workflow_api_channel import channel_options, service_config
from workflow_api_testing import FakeBackend, TestBackend, test_backend

TRANSIENT_FAILURE = grpc.ChannelConnectivity.TRANSIENT_FAILURE


def failing(times: int, answer: Any, code: grpc.StatusCode = grpc.StatusCode.UNAVAILABLE) -> Any:
    """Returns a function for `FakeBackend.handle` that fails the first calls."""
    left = [code] * times

    def handle(_: Any, context: grpc.ServicerContext) -> Any:
        if left:
            context.abort(left.pop(), "gone")
        return answer

    return handle


def channel(address: str) -> grpc.Channel:
    # The fake has no health service.
    return grpc.insecure_channel(address, options=channel_options(health_check=False))


def test_the_rpcs_that_the_protos_declare_repeatable_have_a_bounded_retry_policy_and_no_others() -> None:
    [repeated] = json.loads(service_config())["methodConfig"]
    assert {f"/{name['service']}/{name['method']}" for name in repeated["name"]} == {
        rpc
        for rpc, method in METHODS.items()
        if method.GetOptions().idempotency_level != MethodOptions.IDEMPOTENCY_UNKNOWN
    }
    policy = repeated["retryPolicy"]
    assert "UNAVAILABLE" in policy["retryableStatusCodes"]
    assert policy["maxAttempts"] <= 5
    assert "healthCheckConfig" in json.loads(service_config())
    assert "healthCheckConfig" not in json.loads(service_config(health_check=False))


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED])
def test_a_read_and_a_start_with_its_key_are_repeated_until_they_are_answered(code: grpc.StatusCode) -> None:
    start = runs_pb2.StartRunRequest(workflow_id="wf_1", idempotency_key="first")
    with FakeBackend() as fake, channel(fake.address) as open_channel:
        runs = RunsServiceStub(open_channel)
        fake.handle("GetRun", failing(2, runs_pb2.Run(), code))
        fake.handle("StartRun", failing(1, runs_pb2.StartRunResponse(), code))
        runs.GetRun(runs_pb2.GetRunRequest(run_id="run_1"), timeout=60)
        runs.StartRun(start, timeout=60)
        assert len(fake.calls("GetRun")) == 3
        assert fake.requests("StartRun") == [start, start]


def test_a_stream_is_repeated_before_its_first_message_and_never_after_it() -> None:
    event = runs_pb2.WatchRunEventsResponse(segment_id="seg_1")
    left = ["before", "after"]

    def events(_: Any, context: grpc.ServicerContext) -> Any:
        if left.pop(0) == "after":
            yield event
        context.abort(grpc.StatusCode.UNAVAILABLE, "gone")

    with FakeBackend() as fake, channel(fake.address) as open_channel:
        fake.handle("WatchRunEvents", events)
        messages = RunsServiceStub(open_channel).WatchRunEvents(runs_pb2.WatchRunEventsRequest(), timeout=60)
        assert next(messages) == event
        with pytest.raises(grpc.RpcError):
            next(messages)
        assert len(fake.calls("WatchRunEvents")) == 2


def test_an_rpc_that_may_not_be_repeated_fails_at_once() -> None:
    with FakeBackend() as fake, channel(fake.address) as open_channel:
        fake.handle("CreateKey", failing(1, keys_pb2.KeyCredentials()))
        with pytest.raises(grpc.RpcError) as refused:
            KeysServiceStub(open_channel).CreateKey(keys_pb2.CreateKeyRequest(), timeout=60)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        assert len(fake.calls("CreateKey")) == 1


def test_a_refusal_that_would_be_repeated_in_vain_is_not() -> None:
    with FakeBackend() as fake, channel(fake.address) as open_channel:
        fake.handle("GetRun", failing(1, runs_pb2.Run(), grpc.StatusCode.NOT_FOUND))
        with pytest.raises(grpc.RpcError):
            RunsServiceStub(open_channel).GetRun(runs_pb2.GetRunRequest(), timeout=60)
        assert len(fake.calls("GetRun")) == 1


def test_attempts_end_while_no_backend_answers() -> None:
    with FakeBackend() as fake, channel(fake.address) as open_channel:
        fake.handle("GetRun", failing(9, runs_pb2.Run()))
        with pytest.raises(grpc.RpcError):
            RunsServiceStub(open_channel).GetRun(runs_pb2.GetRunRequest(), timeout=60)
        assert len(fake.calls("GetRun")) == 5


def test_a_read_outlasts_the_restart_of_its_backend(tmp_path: Path) -> None:
    address = f"unix:{tmp_path / 'grpc'}"
    tmp_path.chmod(0o700)
    with test_backend() as backend, grpc.insecure_channel(address, options=channel_options()) as open_channel:
        run_id = started(backend)
        request, lost = runs_pb2.GetRunRequest(run_id=run_id), threading.Event()
        first = GrpcServer(backend.composition.handlers, backend.composition.services.database, address)
        first.start()
        runs = RunsServiceStub(open_channel)
        assert runs.GetRun(request, timeout=60).summary.run_id == run_id
        first.stop(0)
        open_channel.subscribe(lambda state: lost.set() if state is TRANSIENT_FAILURE else None, try_to_connect=True)
        until(lost.is_set, "the loss of the backend")
        call = runs.GetRun.future(request, timeout=60)
        second = GrpcServer(backend.composition.handlers, backend.composition.services.database, address)
        second.start()
        assert call.result().summary.run_id == run_id
        second.stop(0)


def started(backend: TestBackend) -> str:
    start = runs_pb2.StartRunRequest(workflow_id=backend.add_workflow(), idempotency_key="first")
    return backend.stub(RunsServiceStub).StartRun(start).run.summary.run_id
