import asyncio
import threading
from collections.abc import Iterator
from contextlib import aclosing
from itertools import count
from typing import Any, cast

import grpc
import pytest
from google.protobuf.message import Message

from edge.channel.in_process import InProcessChannel
from edge.channel.pair import PairChannel
from edge.channel.pair_server import PairServer
from edge.errors import Refusal
from tests.unit.edge.channels import CANCEL, GET_ME, WATCH, Handler, Use, get_me, paired
from workflow_api.v1.edge_pb2 import KeyMirror, WatchKeyMirrorRequest
from workflow_api.v1.keys_pb2 import ApiKey
from workflow_api.v1.runs_pb2 import CancelRunRequest


def code_of(handlers: dict[str, Handler], use: Use) -> str:
    with pytest.raises(Refusal) as refused:
        paired(handlers, use)
    return refused.value.code


def test_an_rpc_that_is_not_served_is_a_runtime_error() -> None:
    handlers = {GET_ME: Handler(lambda *_: ApiKey())}
    assert code_of(handlers, lambda channel: channel.unary(CANCEL, CancelRunRequest(), (), 60)) == "runtime_error"


def test_calls_are_answered_however_many_there_were() -> None:
    async def use(channel: Any) -> list[Message]:
        channel._numbers = count(2**32 - 1)
        return [await get_me()(channel) for _ in range(3)]

    me = ApiKey(key_id="ak_1")
    assert paired({GET_ME: Handler(lambda *_: me)}, use) == [me] * 3


def test_calls_that_wait_when_the_other_end_goes_are_unreachable_and_so_are_later_ones() -> None:
    entered, let_go = threading.Event(), threading.Event()

    def wait(_: Message, __: grpc.ServicerContext) -> ApiKey:
        entered.set()
        let_go.wait(60)
        return ApiKey()

    async def use(channel: Any) -> list[str]:
        waiting = asyncio.ensure_future(get_me()(channel))
        await asyncio.to_thread(entered.wait, 60)
        await channel.close()
        results = [*await asyncio.gather(waiting, return_exceptions=True)]
        results += await asyncio.gather(get_me()(channel), return_exceptions=True)
        let_go.set()
        return [cast("Refusal", result).code for result in results]

    assert paired({GET_ME: Handler(wait)}, use) == ["runtime_unreachable"] * 2


def test_the_end_of_a_process_ends_its_streams() -> None:
    closed = threading.Event()

    def watch(_: Message, context: grpc.ServicerContext) -> Iterator[KeyMirror]:
        try:
            while context.is_active():
                yield KeyMirror(revision=1)
        finally:
            closed.set()

    async def run() -> bool:
        served = InProcessChannel({WATCH: Handler(watch)})
        channel = await PairChannel.over(await PairServer.pair(served))
        stream = channel.stream(WATCH, WatchKeyMirrorRequest(), (), 60)
        await anext(stream)
        await channel.close()
        ended = await asyncio.to_thread(closed.wait, 60)
        await stream.aclose()
        await served.close()
        return ended

    assert asyncio.run(run())


def test_a_message_of_a_stream_is_made_when_it_is_wanted() -> None:
    made = 0

    def watch(_: Message, __: grpc.ServicerContext) -> Iterator[KeyMirror]:
        nonlocal made
        while True:
            made += 1
            yield KeyMirror(revision=made)

    async def use(channel: Any) -> list[int]:
        seen = []
        async with aclosing(channel.stream(WATCH, WatchKeyMirrorRequest(), (), 60)) as stream:
            for _ in range(3):
                await anext(stream)
                # Another call passes both ends.
                await get_me()(channel)
                seen.append(made)
        return seen

    handlers = {WATCH: Handler(watch), GET_ME: Handler(lambda *_: ApiKey(), point_read=True)}
    assert paired(handlers, use) == [1, 2, 3]


def test_a_call_whose_caller_has_gone_is_cancelled() -> None:
    entered, cancelled = threading.Event(), threading.Event()

    def watch(_: Message, context: grpc.ServicerContext) -> Iterator[KeyMirror]:
        context.add_callback(cancelled.set)
        entered.set()
        cancelled.wait(60)
        yield KeyMirror()

    async def use(channel: Any) -> bool:
        stream = channel.stream(WATCH, WatchKeyMirrorRequest(), (), 60)
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.to_thread(entered.wait, 60)
        waiting.cancel()
        return await asyncio.to_thread(cancelled.wait, 60)

    assert paired({WATCH: Handler(watch)}, use)
