import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from workflow_api.v1 import errors_pb2, outputs_pb2, outputs_pb2_grpc, runs_pb2, runs_pb2_grpc
from workflow_api_testing import FakeBackend, refusal_of, test_backend

ROOT = Path(__file__).parents[3]


@pytest.fixture
def fake() -> Iterator[FakeBackend]:
    with FakeBackend() as fake:
        yield fake


@pytest.fixture
def runs(fake: FakeBackend) -> Iterator[runs_pb2_grpc.RunsServiceStub]:
    with grpc.insecure_channel(fake.address) as channel:
        yield runs_pb2_grpc.RunsServiceStub(channel)


def run_with(status: runs_pb2.RunStatus.ValueType) -> runs_pb2.Run:
    return runs_pb2.Run(summary=runs_pb2.RunSummary(run_id="run_1", status=status))


def test_answers_come_in_turn_and_the_last_again_and_again(
    fake: FakeBackend, runs: runs_pb2_grpc.RunsServiceStub
) -> None:
    fake.answer("GetRun", run_with(runs_pb2.RUN_STATUS_QUEUED), run_with(runs_pb2.RUN_STATUS_COMPLETED))
    request = runs_pb2.GetRunRequest(run_id="run_1")
    statuses = [runs.GetRun(request).summary.status for _ in range(3)]
    assert statuses == [
        runs_pb2.RUN_STATUS_QUEUED,
        runs_pb2.RUN_STATUS_COMPLETED,
        runs_pb2.RUN_STATUS_COMPLETED,
    ]


def test_requests_are_recorded_with_their_metadata(fake: FakeBackend, runs: runs_pb2_grpc.RunsServiceStub) -> None:
    fake.answer("RunsService/GetRun", run_with(runs_pb2.RUN_STATUS_QUEUED))
    request = runs_pb2.GetRunRequest(run_id="run_1")
    runs.GetRun(request, metadata=(("workflow-api-key-id", "ak_1"),))
    assert fake.requests("GetRun") == [request]
    [call] = fake.calls()
    assert (call.rpc, call.metadata["workflow-api-key-id"]) == ("RunsService/GetRun", "ak_1")


def test_a_stream_is_answered_message_by_message(fake: FakeBackend) -> None:
    parts = [outputs_pb2.GetOutputContentResponse(data=data) for data in (b"a", b"b")]
    fake.answer("GetOutputContent", parts)
    with grpc.insecure_channel(fake.address) as channel:
        stub = outputs_pb2_grpc.OutputsServiceStub(channel)
        assert list(stub.GetOutputContent(outputs_pb2.GetOutputContentRequest())) == parts


def test_a_refusal_is_on_the_wire_what_the_service_answers(
    fake: FakeBackend, runs: runs_pb2_grpc.RunsServiceStub
) -> None:
    request = runs_pb2.GetRunRequest(run_id="run_none")
    fake.refuse("GetRun", errors_pb2.ERROR_REASON_RUN_NOT_FOUND)
    with pytest.raises(grpc.RpcError) as scripted:
        runs.GetRun(request)
    with test_backend() as backend, pytest.raises(grpc.RpcError) as real:
        # Callers without a key are told the id, too.
        backend.stub(runs_pb2_grpc.RunsServiceStub, key=backend.add_key()).GetRun(request)
    assert refusal_of(scripted.value) == refusal_of(real.value)


def test_a_refusal_carries_the_fields_and_the_wait_given(
    fake: FakeBackend, runs: runs_pb2_grpc.RunsServiceStub
) -> None:
    fake.refuse(
        "StartRun", errors_pb2.ERROR_REASON_INVALID_PARAMETERS, fields={"top": "must be a number"}, retry_after=7
    )
    with pytest.raises(grpc.RpcError) as refused:
        runs.StartRun(runs_pb2.StartRunRequest())
    refusal = refusal_of(refused.value)
    assert (refusal.fields, refusal.retry_after) == ({"top": "must be a number"}, 7)


def test_some_calls_are_refused_and_the_next_answered_as_before(
    fake: FakeBackend, runs: runs_pb2_grpc.RunsServiceStub
) -> None:
    request = runs_pb2.GetRunRequest(run_id="run_1")
    for after in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.OK):
        fake.refuse("GetRun", errors_pb2.ERROR_REASON_RUNTIME_UNREACHABLE, times=2)
        codes = [runs.GetRun.future(request).code() for _ in range(3)]
        assert codes == [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNAVAILABLE, after]
        fake.answer("GetRun", run_with(runs_pb2.RUN_STATUS_QUEUED))


def test_a_function_answers_by_the_request(fake: FakeBackend, runs: runs_pb2_grpc.RunsServiceStub) -> None:
    fake.handle("GetRun", lambda request, _: runs_pb2.Run(summary=runs_pb2.RunSummary(run_id=request.run_id)))
    assert runs.GetRun(runs_pb2.GetRunRequest(run_id="run_7")).summary.run_id == "run_7"


def test_a_function_that_answers_with_another_type_fails_the_call(
    fake: FakeBackend, runs: runs_pb2_grpc.RunsServiceStub
) -> None:
    fake.handle("GetRun", lambda *_: runs_pb2.RunSummary())
    fake.handle("WatchRun", lambda *_: iter([runs_pb2.Run(), runs_pb2.RunSummary()]))
    with pytest.raises(grpc.RpcError) as refused:
        runs.GetRun(runs_pb2.GetRunRequest())
    assert "RunsService/GetRun returns workflow_api.v1.Run." in refusal_of(refused.value).message
    messages = runs.WatchRun(runs_pb2.WatchRunRequest())
    assert next(messages) == runs_pb2.Run()
    with pytest.raises(grpc.RpcError) as ended:
        next(messages)
    assert "returns a sequence of workflow_api.v1.Run." in refusal_of(ended.value).message


def test_an_rpc_without_an_answer_names_itself(fake: FakeBackend, runs: runs_pb2_grpc.RunsServiceStub) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        runs.GetRun(runs_pb2.GetRunRequest())
    refusal = refusal_of(refused.value)
    assert refusal.code is grpc.StatusCode.UNIMPLEMENTED
    assert refusal.message == "The script has no answer to RunsService/GetRun."


def test_a_script_that_no_service_would_answer_with_is_refused(fake: FakeBackend) -> None:
    with pytest.raises(TypeError, match=r"RunsService/GetRun returns workflow_api\.v1\.Run\."):
        fake.answer("GetRun", runs_pb2.GetRunRequest())
    with pytest.raises(TypeError, match="returns a sequence of"):
        fake.answer("GetOutputContent", outputs_pb2.GetOutputContentResponse())
    with pytest.raises(ValueError, match="never refuses with ERROR_REASON_QUOTA"):
        fake.refuse("GetRun", errors_pb2.ERROR_REASON_QUOTA_EXCEEDED)
    with pytest.raises(ValueError, match="never refuses with the unknown reason 999"):
        fake.refuse("GetRun", 999)  # type: ignore[arg-type]  # a number of a later release
    with pytest.raises(ValueError, match="ERROR_REASON_RUN_NOT_FOUND has no fields"):
        fake.refuse("GetRun", errors_pb2.ERROR_REASON_RUN_NOT_FOUND, fields={"run_id": "must exist"})
    with pytest.raises(ValueError, match="names no RPC"):
        fake.answer("GetRuns", runs_pb2.Run())
    with pytest.raises(ValueError, match="needs an answer"):
        fake.answer("GetRun")


def test_it_is_imported_without_the_service() -> None:
    program = (
        "import sys, workflow_api_testing\n"
        "parts = {'backend', 'contract', 'deploy', 'edge', 'console', 'telemetry', 'sqlalchemy', 'grpc_testing'}\n"
        "sys.exit(', '.join(parts & sys.modules.keys()) or None)"
    )
    found = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'generated'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (found.returncode, found.stderr) == (0, "")
