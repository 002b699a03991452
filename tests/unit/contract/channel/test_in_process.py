"""Calls in one process: each on a thread or without one, within its time, and none once the channel is closed."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from contract.channel.in_process import InProcessChannel
from contract.refusals import Refusal
from tests.unit.contract.channels import GET_ME, Handler, get_me
from workflow_api.v1.keys_pb2 import ApiKey


class Begun:
    """A call that waits for a commit, which a test makes."""

    def __init__(self) -> None:
        self.answers = 0
        self._action: Callable[[], None] | None = None

    def add_done_callback(self, action: Callable[[], None]) -> None:
        self._action = action

    def commit(self) -> None:
        assert self._action is not None
        self._action()

    def answer(self) -> ApiKey:
        self.answers += 1
        return ApiKey(key_id="ak_1")


def waiting(begun: Begun) -> Handler:
    return Handler(lambda _, __: begun, runs_inline=True)


def with_channel(handler: Handler, use: Callable[[InProcessChannel], Any], threads: int = 1) -> Any:
    async def run() -> Any:
        channel = InProcessChannel({GET_ME: handler}, threads=threads)
        try:
            async with asyncio.timeout(60):
                return await use(channel)
        finally:
            await channel.close()

    return asyncio.run(run())


def test_a_call_that_waits_for_a_commit_has_its_answer_from_another_thread() -> None:
    begun = Begun()

    async def use(channel: InProcessChannel) -> Any:
        call = asyncio.ensure_future(get_me()(channel))
        await asyncio.sleep(0)
        await asyncio.to_thread(begun.commit)
        return await call

    assert with_channel(waiting(begun), use).key_id == "ak_1"
    assert begun.answers == 1


def test_a_commit_that_takes_too_long_is_given_up_and_its_call_still_ends() -> None:
    begun = Begun()

    async def use(channel: InProcessChannel) -> None:
        with pytest.raises(Refusal, match="did not answer"):
            await get_me(0.01)(channel)
        begun.commit()
        await asyncio.sleep(0)

    with_channel(waiting(begun), use)
    assert begun.answers == 1


def test_a_call_that_waits_longer_than_its_time_for_a_thread_never_begins() -> None:
    let_go, began = threading.Event(), []

    def hold(*_: Any) -> ApiKey:
        began.append(1)
        assert let_go.wait(60)
        return ApiKey()

    async def use(channel: InProcessChannel) -> None:
        busy = asyncio.ensure_future(get_me()(channel))
        await asyncio.sleep(0)
        with pytest.raises(Refusal):
            await get_me(0.01)(channel)
        let_go.set()
        await busy

    with_channel(Handler(hold), use)
    assert len(began) == 1


def test_a_call_that_waits_for_a_thread_when_the_channel_is_closed_is_refused_and_never_begins() -> None:
    let_go, began = threading.Event(), []
    together = threading.Barrier(2)

    def hold(*_: Any) -> ApiKey:
        began.append(1)
        together.wait(60)
        assert let_go.wait(60)
        return ApiKey(key_id="ak_1")

    async def use(channel: InProcessChannel) -> Any:
        busy = asyncio.ensure_future(get_me()(channel))
        await asyncio.to_thread(together.wait, 60)
        late = asyncio.ensure_future(get_me()(channel))
        await asyncio.sleep(0)
        await channel.close()
        let_go.set()
        with pytest.raises(Refusal):
            await late
        with pytest.raises(Refusal):
            await get_me()(channel)
        return await busy

    assert with_channel(Handler(hold), use).key_id == "ak_1"
    assert len(began) == 1
