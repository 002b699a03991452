import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from backend.rpc.interceptors import Handler
from backend.rpc.server import UNARY_THREADS, GrpcServer
from backend.storage.dialects.sqlite.database import SqliteDatabase
from backend.storage.factory import DataFolder
from workflow_api.v1 import options_pb2, runs_pb2, runs_pb2_grpc


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    folder = DataFolder(tmp_path)
    database = folder.open_database()
    yield database
    database.close()
    folder.close()


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "localhost.test:0"])
def test_a_plain_server_listens_on_this_machine_only(database: SqliteDatabase, address: str) -> None:
    with pytest.raises(ValueError, match="Plain gRPC listens on loopback only"):
        GrpcServer({}, database, address)


def test_edges_are_told_to_go_elsewhere_before_calls_are_refused(database: SqliteDatabase) -> None:
    server = GrpcServer({}, database, "127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel, ThreadPoolExecutor(1) as pool:
        health = health_pb2_grpc.HealthStub(channel)
        watched = health.Watch(health_pb2.HealthCheckRequest(service="liveness"), timeout=60)
        assert next(watched).status == health_pb2.HealthCheckResponse.SERVING
        stopping = pool.submit(server.stop, 60)
        assert next(watched).status == health_pb2.HealthCheckResponse.NOT_SERVING
        watched.cancel()
        stopping.result(60)


def test_a_call_that_is_late_before_its_turn_is_not_carried_out(database: SqliteDatabase) -> None:
    """All threads are busy; what nobody waits for any more is let go of."""
    let_go, began = threading.Event(), threading.Semaphore(0)
    asked: list[str] = []

    def get(request: runs_pb2.GetRunRequest, _: grpc.ServicerContext) -> runs_pb2.Run:
        asked.append(request.run_id)
        began.release()
        let_go.wait(60)
        return runs_pb2.Run()

    handler = Handler(
        get,
        options_pb2.MethodRules(access=options_pb2.ACCESS_SCOPE),
        streaming=False,
        page_read=False,
        request_class=runs_pb2.GetRunRequest,
        response_class=runs_pb2.Run,
    )
    server = GrpcServer({"/workflow_api.v1.RunsService/GetRun": handler}, database, "127.0.0.1:0")
    server.start()
    try:
        with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            stub = runs_pb2_grpc.RunsServiceStub(channel)
            busy = [stub.GetRun.future(runs_pb2.GetRunRequest(run_id="busy"), timeout=60) for _ in range(UNARY_THREADS)]
            for _ in busy:
                assert began.acquire(timeout=60)
            with pytest.raises(grpc.RpcError) as late:
                stub.GetRun(runs_pb2.GetRunRequest(run_id="late"), timeout=0.2)
            assert late.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            # Refused without a thread, after the server has read that nobody waits for the late call.
            unknown: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
                "/workflow_api.v1.RunsService/Unknown"
            )
            with pytest.raises(grpc.RpcError) as refused:
                unknown(b"", timeout=60)
            assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
            let_go.set()
            for call in busy:
                call.result()
            stub.GetRun(runs_pb2.GetRunRequest(run_id="next"), timeout=60)
    finally:
        let_go.set()
        server.stop(0)
    assert asked == [*["busy"] * UNARY_THREADS, "next"]
