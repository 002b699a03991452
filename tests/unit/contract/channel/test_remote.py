"""The channel over gRPC: backends that come, stop and go, and answers that are none."""

import asyncio
import itertools
import logging
from collections.abc import Callable, Iterator
from contextlib import aclosing, suppress
from functools import partial
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.message import Message

from contract.channel import Channel
from contract.channel.remote import CHANNEL_OPTIONS, RemoteChannel
from contract.refusals import NoAnswer, Refusal
from tests.support.poll import wait_until
from tests.unit.contract.channels import (
    CANCEL,
    ERASE,
    GET_ME,
    WATCH,
    ZIP,
    Grpc,
    Handler,
    Servicers,
    get_me,
    refuse,
    remote,
)
from workflow_api.v1.edge_pb2 import WatchKeyMirrorRequest
from workflow_api.v1.keys_pb2 import ApiKey
from workflow_api.v1.outputs_pb2 import GetOutputsZipRequest, GetOutputsZipResponse
from workflow_api.v1.runs_pb2 import CancelRunRequest, CancelRunResponse, EraseRunDataRequest, EraseRunDataResponse


def test_a_backend_that_is_down_is_unreachable() -> None:
    async def call() -> None:
        channel = RemoteChannel(grpc.aio.insecure_channel("127.0.0.1:1"))
        try:
            await get_me()(channel)
        finally:
            await channel.close()

    with pytest.raises(Refusal) as refused:
        asyncio.run(call())
    assert refused.value.code == "runtime_unreachable"


def test_a_backend_that_comes_back_is_found_and_logged_once_as_lost_and_once_as_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    first = Grpc({GET_ME: Handler(Servicers().get_me)})
    first.stop()

    async def call() -> Message:
        channel = RemoteChannel(grpc.aio.insecure_channel(f"127.0.0.1:{first.port}", options=CHANNEL_OPTIONS))
        second = None
        try:
            for _ in range(3):
                with pytest.raises(NoAnswer):
                    await get_me()(channel)
            second = Grpc({GET_ME: Handler(Servicers().get_me)}, first.port)
            async with asyncio.timeout(60):
                while True:
                    with suppress(Refusal):
                        await get_me()(channel)
                        answer: Message = await get_me()(channel)
                        return answer
                    await asyncio.sleep(0.01)
        finally:
            await channel.close()
            if second is not None:
                second.stop()

    assert asyncio.run(call()) == ApiKey(key_id="ak_1")
    # Of asyncio come lines about the loops of earlier tests.
    lost, back = (record.message for record in caplog.records if record.name.startswith("contract.channel."))
    assert lost.startswith("The backend cannot be reached: ")
    assert back == "The backend answers again"


def stopping(status: grpc.StatusCode, then: Message, tries: list[Message]) -> Callable[..., Message]:
    """What a caller sees of a backend that stops, and then of the one that it reaches next."""

    def call(request: Message, context: grpc.ServicerContext) -> Message:
        tries.append(request)
        if len(tries) == 1:
            context.abort(status, "")
        return then

    return call


@pytest.mark.parametrize("status", [grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE])
def test_a_call_that_a_stopping_backend_gives_back_is_made_again(status: grpc.StatusCode) -> None:
    tries: list[Message] = []
    answer = ApiKey(key_id="ak_1")
    assert remote({GET_ME: Handler(stopping(status, answer, tries))}, get_me()) == answer
    assert len(tries) == 2


@pytest.mark.parametrize(
    ("rpc", "request_message", "answer"),
    [
        (ERASE, EraseRunDataRequest(run_id="run_1"), EraseRunDataResponse()),
        (CANCEL, CancelRunRequest(run_id="run_1"), CancelRunResponse()),
    ],
    ids=["erasure", "cancel"],
)
def test_a_call_that_does_another_thing_when_made_again_is_not(
    rpc: str, request_message: Message, answer: Message
) -> None:
    tries: list[Message] = []
    handler = Handler(stopping(grpc.StatusCode.CANCELLED, answer, tries))
    with pytest.raises(Refusal) as refused:
        remote({rpc: handler}, lambda channel: channel.unary(rpc, request_message, (), 5.0))
    assert refused.value.code == "runtime_unreachable"
    assert len(tries) == 1


def test_a_refusal_is_not_asked_for_again() -> None:
    tries: list[Message] = []
    refusing = refuse("RUNTIME_UNREACHABLE", grpc.StatusCode.UNAVAILABLE)

    def call(request: Message, context: grpc.ServicerContext) -> ApiKey:
        tries.append(request)
        return refusing(request, context)

    with pytest.raises(Refusal):
        remote({GET_ME: Handler(call)}, get_me())
    assert len(tries) == 1


@pytest.mark.parametrize("sent", [0, 1])
def test_a_download_is_begun_again_before_its_first_message_only(sent: int) -> None:
    tries: list[Message] = []
    message = GetOutputsZipResponse(data=b"x")

    def zipped(request: Message, context: grpc.ServicerContext) -> Iterator[Message]:
        tries.append(request)
        yield from [message] * sent
        if len(tries) == 1:
            context.abort(grpc.StatusCode.CANCELLED, "")
        yield message

    async def use(channel: Channel) -> list[Message]:
        request = GetOutputsZipRequest(run_id="run_1")
        async with aclosing(channel.stream(ZIP, request, (), 5.0)) as messages:
            return [message async for message in messages]

    if sent:
        with pytest.raises(Refusal):
            remote({ZIP: Handler(zipped)}, use)
    else:
        assert remote({ZIP: Handler(zipped)}, use) == [message]
    assert len(tries) == 2 - sent


def test_calls_go_on_at_another_backend_when_one_ends() -> None:
    first, second = (Grpc({CANCEL: Handler(lambda *_: CancelRunResponse())}) for _ in range(2))

    async def call() -> None:
        target = f"ipv4:127.0.0.1:{first.port},127.0.0.1:{second.port}"
        channel = RemoteChannel(grpc.aio.insecure_channel(target, options=CHANNEL_OPTIONS))
        try:
            for _ in range(10):
                await channel.unary(CANCEL, CancelRunRequest(), (), 5.0)
            first.stop()
            for _ in range(10):
                await channel.unary(CANCEL, CancelRunRequest(), (), 5.0)
        finally:
            await channel.close()

    try:
        asyncio.run(call())
    finally:
        first.stop()
        second.stop()


def test_a_call_waits_a_moment_for_a_backend_that_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    # Another moment than in production: a loaded machine may take longer to start the second server.
    timeout = asyncio.timeout
    monkeypatch.setattr(asyncio, "timeout", lambda _: timeout(60.0))
    backend = Grpc({CANCEL: Handler(lambda *_: CancelRunResponse())})

    async def call() -> None:
        target = f"127.0.0.1:{backend.port}"
        channel = RemoteChannel(grpc.aio.insecure_channel(target, options=CHANNEL_OPTIONS))
        again: list[Grpc] = []
        try:
            await channel.unary(CANCEL, CancelRunRequest(), (), 5.0)
            backend.stop()
            waiting = asyncio.ensure_future(channel.unary(CANCEL, CancelRunRequest(), (), 60.0))
            again.append(Grpc({CANCEL: Handler(lambda *_: CancelRunResponse())}, backend.port))
            await waiting
        finally:
            await channel.close()
            for server in again:
                server.stop()

    asyncio.run(call())


def test_new_calls_take_a_renewed_channel_and_calls_under_way_end_on_the_former(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("contract.channel.remote.monotonic", partial(next, itertools.count(0.0)))
    servicers = Servicers()
    former = Grpc({WATCH: Handler(servicers.watch)})
    latter = Grpc({GET_ME: Handler(servicers.get_me)})

    async def call() -> None:
        first, second = (
            grpc.aio.insecure_channel(f"127.0.0.1:{server.port}", options=CHANNEL_OPTIONS)
            for server in (former, latter)
        )
        coming = [None, second]
        channel = RemoteChannel(first, lambda: coming.pop(0) if coming else None)
        async with aclosing(channel.stream(WATCH, WatchKeyMirrorRequest(), (), 60)) as mirrors:
            await anext(mirrors)
            assert await get_me()(channel) == ApiKey(key_id="ak_1")
            before: Any = await anext(mirrors)
            after: Any = await anext(mirrors)
            assert after.revision == before.revision + 1
        await asyncio.to_thread(wait_until, lambda: first.get_state() is grpc.ChannelConnectivity.SHUTDOWN)
        assert await get_me()(channel) == ApiKey(key_id="ak_1")
        await channel.close()

    try:
        asyncio.run(call())
    finally:
        former.stop()
        latter.stop()


def test_closing_ends_calls_on_a_former_channel_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contract.channel.remote.monotonic", partial(next, itertools.count(0.0)))
    servicers = Servicers()
    server = Grpc({WATCH: Handler(servicers.watch), GET_ME: Handler(servicers.get_me)})

    async def call() -> None:
        first, second = (grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") for _ in range(2))
        coming = [None, second]
        channel = RemoteChannel(first, lambda: coming.pop(0) if coming else None)
        mirrors = channel.stream(WATCH, WatchKeyMirrorRequest(), (), 60)
        await anext(mirrors)
        await get_me()(channel)
        await channel.close()
        assert {first.get_state(), second.get_state()} == {grpc.ChannelConnectivity.SHUTDOWN}
        await mirrors.aclose()

    try:
        asyncio.run(call())
        assert servicers.closed.wait(60)
    finally:
        server.stop()


def test_an_answer_that_cannot_be_read_is_a_runtime_error() -> None:
    class Garbage:
        def SerializeToString(self) -> bytes:
            return b"\xff\xff\xff"

    with pytest.raises(Refusal) as refused:
        remote({GET_ME: Handler(lambda *_: Garbage())}, get_me())
    assert refused.value.code == "runtime_error"


def test_an_rpc_that_the_backend_does_not_know_is_a_runtime_error() -> None:
    with pytest.raises(Refusal) as refused:
        remote({}, get_me())
    assert refused.value.code == "runtime_error"
