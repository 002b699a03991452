"""A read ends with its call: at the deadline, and when the caller has gone, it leaves no statement running."""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import grpc
import psycopg
import pytest
from sqlalchemy import BigInteger, func, literal, select

from backend.rpc.interceptors import Handler, handlers_of
from backend.rpc.server import GrpcServer
from backend.storage.database import Database, Tx
from backend.storage.statements import ScalarQuery
from backend.storage.waiting_callers import CallerGoneError, WaitingCaller, read_for
from contract.channel.in_process import InProcessChannel
from contract.refusals import Refusal
from tests.support.poll import until
from workflow_api.v1 import model_usage_pb2
from workflow_api.v1.model_usage_pb2_grpc import ModelUsageServiceStub
from workflow_api_testing import TestBackend

LIST = "/workflow_api.v1.ModelUsageService/ListModelUsageDays"
REQUEST = model_usage_pb2.ListModelUsageDaysRequest()


def counted(last: int) -> ScalarQuery[int]:
    """Returns a query that counts to a number, one by one."""
    numbers = select(literal(1, BigInteger).label("number")).cte("numbers", recursive=True)
    numbers = numbers.union_all(select(numbers.c.number + 1).where(numbers.c.number < literal(last, BigInteger)))
    return ScalarQuery(select(func.count().label("counted")).select_from(numbers))


SLOW, QUICK = counted(10**11), counted(10)
SESSION: ScalarQuery[int] = ScalarQuery(select(func.pg_backend_pid(type_=BigInteger).label("session")))


class SlowServicer:
    """Servicer whose list takes hours; `begun` and `ended` follow its reads."""

    def __init__(self, read: Callable[[Callable[[Tx], int | None]], int | None]) -> None:
        self._read = read
        self.begun, self.ended = threading.Event(), threading.Event()

    def ListModelUsageDays(
        self, _: model_usage_pb2.ListModelUsageDaysRequest, __: grpc.ServicerContext
    ) -> model_usage_pb2.ListModelUsageDaysResponse:
        self.begun.set()
        try:
            self._read(lambda tx: tx.scalar(SLOW))
        finally:
            self.ended.set()
        return model_usage_pb2.ListModelUsageDaysResponse()

    def GetRunModelUsage(
        self, _: model_usage_pb2.GetRunModelUsageRequest, __: grpc.ServicerContext
    ) -> model_usage_pb2.RunModelUsage:
        return model_usage_pb2.RunModelUsage()


@pytest.fixture
def database(backend: TestBackend) -> Database:
    return backend.composition.services.database


@pytest.fixture(params=["read", "snapshot"])
def servicer(request: pytest.FixtureRequest, database: Database) -> SlowServicer:
    return SlowServicer(getattr(database, request.param))


@pytest.fixture
def handlers(servicer: SlowServicer) -> dict[str, Handler]:
    return handlers_of(servicer, model_usage_pb2.DESCRIPTOR.services_by_name["ModelUsageService"])


@pytest.fixture
def stub(handlers: dict[str, Handler], database: Database, tmp_path: Path) -> Iterator[ModelUsageServiceStub]:
    tmp_path.chmod(0o700)
    address = f"unix:{tmp_path / 'grpc'}"
    server = GrpcServer(handlers, database, address)
    server.start()
    with grpc.insecure_channel(address) as channel:
        yield ModelUsageServiceStub(channel)
    server.stop(0)


def assert_ended(servicer: SlowServicer, database: Database, database_url: str | None) -> None:
    until(servicer.ended.is_set, "the end of the read")
    if database_url is not None:
        with psycopg.connect(database_url) as connection:
            running = "SELECT pid FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%numbers%' AND pid <> "
            until(lambda: not connection.execute(running + "pg_backend_pid()").fetchall(), "the end of the statement")
    # Nothing of it is left to later work of the thread or the connection.
    for _ in range(20):
        assert database.snapshot(lambda tx: tx.scalar(QUICK)) == database.read(lambda tx: tx.scalar(QUICK)) == 10


def test_a_read_ends_at_the_deadline_of_its_call(
    stub: ModelUsageServiceStub, servicer: SlowServicer, database: Database, database_url: str | None
) -> None:
    for _ in range(2):
        servicer.ended.clear()
        with pytest.raises(grpc.RpcError) as refused:
            stub.ListModelUsageDays(REQUEST, timeout=1)
        assert refused.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert_ended(servicer, database, database_url)


def test_a_read_ends_when_its_caller_cancels(
    stub: ModelUsageServiceStub, servicer: SlowServicer, database: Database, database_url: str | None
) -> None:
    call = stub.ListModelUsageDays.future(REQUEST)
    until(servicer.begun.is_set, "the read")
    call.cancel()
    assert_ended(servicer, database, database_url)


def test_a_read_within_one_process_ends_when_the_edge_waits_no_longer(
    handlers: dict[str, Handler], servicer: SlowServicer, database: Database, database_url: str | None
) -> None:
    async def call() -> None:
        channel = InProcessChannel(handlers)
        with pytest.raises(Refusal) as refused:
            await channel.unary(LIST, REQUEST, (), 0.5)
        assert refused.value.code == "runtime_unreachable"
        await channel.close()

    asyncio.run(call())
    assert_ended(servicer, database, database_url)


def test_a_caller_who_has_gone_before_its_read_costs_no_connection(
    database: Database, database_url: str | None
) -> None:
    def session() -> int | None:
        return database.read(lambda tx: tx.scalar(SESSION if database_url else QUICK))

    before = session()
    caller = WaitingCaller()
    caller.leave()
    for _ in range(5):
        with suppress(CallerGoneError):
            read_for(caller, session)
    assert session() == before


def test_a_read_that_ended_with_its_caller_is_no_outage(
    stub: ModelUsageServiceStub, servicer: SlowServicer, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(grpc.RpcError):
        stub.ListModelUsageDays(REQUEST, timeout=0.5)
    until(servicer.ended.is_set, "the end of the read")
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]
