"""Calls whose answers wait for a commit of this process: they begin on the event loop and wait without a thread.

All that one group commit ends wakes the loop once. Of 32 starts at once each costs two thirds of what it costs on 16
threads that are woken one by one. (`python -m benchmarks`: starts.)
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Protocol

from google.protobuf.message import Message

from contract.loop_deliveries import LoopDeliveries


class PendingCall(Protocol):
    """A call that waits for a commit, as the backend makes it."""

    def call_back(self, action: Callable[[], None]) -> None:
        """Calls the action once the answer is there, from any thread; at once if it is there already."""

    def answer(self) -> Message:
        """Returns the answer."""


class PendingCalls:
    """The calls that wait, of one event loop."""

    def __init__(self) -> None:
        self._ended = LoopDeliveries[tuple[PendingCall, asyncio.Future[Message]]](_deliver)

    async def answer(self, call: PendingCall, seconds: float) -> Message:
        """Returns the answer of a call.

        Raises:
            TimeoutError: it took longer than `seconds`; the change goes on.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Message] = loop.create_future()
        call.call_back(partial(self._end, loop, call, answer))
        timer = loop.call_later(seconds, _time_out, answer)
        try:
            return await answer
        finally:
            timer.cancel()

    def _end(self, loop: asyncio.AbstractEventLoop, call: PendingCall, answer: "asyncio.Future[Message]") -> None:
        self._ended.add(loop, (call, answer))


def _deliver(ended: "tuple[PendingCall, asyncio.Future[Message]]") -> None:
    call, answer = ended
    # Also where nobody waits any more: how the call ended is logged and counted.
    try:
        message = call.answer()
    except Exception as error:  # noqa: BLE001 - it is the caller's
        if not answer.done():
            answer.set_exception(error)
        return
    if not answer.done():
        answer.set_result(message)


def _time_out(answer: "asyncio.Future[Message]") -> None:
    if not answer.done():
        answer.set_exception(TimeoutError())
