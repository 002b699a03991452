"""Streams that wait over a real connection, many more than there are threads."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from backend.common.waits import Pause, pausing
from backend.rpc.interceptors import handlers_of
from backend.rpc.server import GrpcServer
from backend.services.run_changes import RunChanges
from backend.storage.dialects.sqlite.database import SqliteDatabase
from backend.storage.factory import DataFolder
from tests.support.poll import until
from workflow_api.v1 import runs_pb2, runs_pb2_grpc

MANY = 150


class Watches:
    """Sends one message at once, and one after each change; fails for the run `fail`."""

    def __init__(self, changes: RunChanges) -> None:
        self._changes = changes
        self.open = 0
        self._lock = threading.Lock()

    @pausing
    def WatchRun(
        self, request: runs_pb2.WatchRunRequest, context: grpc.ServicerContext
    ) -> Iterator[runs_pb2.Run | Pause]:
        if request.run_id == "fail":
            raise RuntimeError("as a defect would")
        subscription = self._changes.subscribe(request.run_id)
        with self._lock:
            self.open += 1
        try:
            yield runs_pb2.Run(etag="first")
            while context.is_active() and not subscription.ended:
                for run_id in subscription.take().run_ids:
                    yield runs_pb2.Run(etag=run_id)
                yield subscription
        finally:
            subscription.close()
            with self._lock:
                self.open -= 1


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    folder = DataFolder(tmp_path)
    database = folder.open_database()
    yield database
    database.close()
    folder.close()


@pytest.fixture
def changes(database: SqliteDatabase) -> RunChanges:
    return RunChanges(database)


@pytest.fixture
def watches(changes: RunChanges) -> Watches:
    return Watches(changes)


@pytest.fixture
def stub(database: SqliteDatabase, changes: RunChanges, watches: Watches) -> Iterator[Any]:
    service = runs_pb2.DESCRIPTOR.services_by_name["RunsService"]
    for method in service.methods:
        if method.name != "WatchRun":
            setattr(Watches, method.name, None)
    server = GrpcServer(handlers_of(watches, service), database, "127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        yield runs_pb2_grpc.RunsServiceStub(channel)
    server.stop(60, changes.end)


def announce(database: SqliteDatabase, run_id: str) -> None:
    database.write(lambda tx: tx.announce(run_id))


def test_streams_wait_without_a_thread_each(stub: Any, database: SqliteDatabase) -> None:
    streams = [stub.WatchRun(runs_pb2.WatchRunRequest(run_id=f"run_{n}"), timeout=120) for n in range(MANY)]
    assert {next(stream).etag for stream in streams} == {"first"}
    assert threading.active_count() < MANY
    for n in reversed(range(MANY)):
        announce(database, f"run_{n}")
    assert [next(stream).etag for stream in streams] == [f"run_{n}" for n in range(MANY)]
    for stream in streams:
        stream.cancel()


def test_a_caller_that_goes_ends_its_stream(stub: Any, watches: Watches) -> None:
    stream = stub.WatchRun(runs_pb2.WatchRunRequest(run_id="run_1"), timeout=120)
    next(stream)
    assert watches.open == 1
    stream.cancel()
    until(lambda: watches.open == 0, "the end of the stream")


def test_the_end_of_all_waiting_ends_a_stream_cleanly(stub: Any, changes: RunChanges) -> None:
    stream = stub.WatchRun(runs_pb2.WatchRunRequest(run_id="run_1"), timeout=120)
    next(stream)
    changes.end()
    assert list(stream) == []


def test_a_defect_ends_a_stream_with_a_status(stub: Any) -> None:
    with pytest.raises(grpc.RpcError) as failed:
        next(stub.WatchRun(runs_pb2.WatchRunRequest(run_id="fail"), timeout=120))
    assert failed.value.code() is grpc.StatusCode.INTERNAL
