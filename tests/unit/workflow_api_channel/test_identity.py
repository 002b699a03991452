"""Channels with an identity name it in each call."""

import asyncio
from collections.abc import Iterator

import grpc
import grpc.aio
import pytest

from contract.metadata import decode_actor, encode_actor
from workflow_api.v1 import outputs_pb2, runs_pb2
from workflow_api.v1.outputs_pb2_grpc import OutputsServiceStub
from workflow_api.v1.runs_pb2_grpc import RunsServiceStub
from workflow_api_channel import identified, identity_interceptors
from workflow_api_testing import FakeBackend

ACTOR = "user:Jürgen 50%"
GET, CONTENT = runs_pb2.GetRunRequest(run_id="run_1"), outputs_pb2.GetOutputContentRequest(run_id="run_1")


@pytest.fixture
def fake() -> Iterator[FakeBackend]:
    with FakeBackend() as fake:
        fake.answer("GetRun", runs_pb2.Run())
        fake.answer("GetOutputContent", [outputs_pb2.GetOutputContentResponse(data=b"a")])
        yield fake


def test_every_call_of_a_channel_names_the_identity(fake: FakeBackend) -> None:
    with grpc.insecure_channel(fake.address) as plain:
        channel = identified(plain, key_id="ak_1", actor=ACTOR)
        RunsServiceStub(channel).GetRun(GET)
        assert [part.data for part in OutputsServiceStub(channel).GetOutputContent(CONTENT)] == [b"a"]
    assert_named(fake)


def test_every_call_of_an_aio_channel_names_the_identity(fake: FakeBackend) -> None:
    async def call() -> None:
        interceptors = identity_interceptors(key_id="ak_1", actor=ACTOR)
        async with grpc.aio.insecure_channel(fake.address, interceptors=interceptors) as channel:
            await RunsServiceStub(channel).GetRun(GET)
            async for part in OutputsServiceStub(channel).GetOutputContent(CONTENT):
                assert part.data == b"a"

    asyncio.run(call())
    assert_named(fake)


def assert_named(fake: FakeBackend) -> None:
    assert [call.rpc for call in fake.calls()] == ["RunsService/GetRun", "OutputsService/GetOutputContent"]
    for call in fake.calls():
        assert call.metadata["workflow-api-key-id"] == "ak_1"
        assert call.metadata["workflow-api-actor"] == encode_actor(ACTOR)
        assert decode_actor(call.metadata["workflow-api-actor"]) == ACTOR


def test_a_call_with_an_identity_of_its_own_keeps_it_and_its_other_metadata(fake: FakeBackend) -> None:
    own = (("workflow-api-actor", "user:kim"), ("workflow-api-request-id", "req_1"))
    with grpc.insecure_channel(fake.address) as plain:
        RunsServiceStub(identified(plain, key_id="ak_1", actor="service:billing")).GetRun(GET, metadata=own)

    async def call() -> None:
        interceptors = identity_interceptors(key_id="ak_1", actor="service:billing")
        async with grpc.aio.insecure_channel(fake.address, interceptors=interceptors) as channel:
            await RunsServiceStub(channel).GetRun(GET, metadata=own)

    asyncio.run(call())
    for sent in (call.metadata for call in fake.calls()):
        assert (sent["workflow-api-actor"], sent["workflow-api-request-id"]) == ("user:kim", "req_1")
        assert sent["workflow-api-key-id"] == "ak_1"


@pytest.mark.parametrize("given", [{}, {"key_id": ""}, {"key_id": "ak_1", "actor": " "}])
def test_an_identity_that_the_services_would_refuse_is_refused(fake: FakeBackend, given: dict[str, str]) -> None:
    with grpc.insecure_channel(fake.address) as channel, pytest.raises(ValueError, match="neither may be blank"):
        identified(channel, **given)
    with pytest.raises(ValueError, match="neither may be blank"):
        identity_interceptors(**given)
