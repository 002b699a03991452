"""Serves a channel to processes that this one starts, each over a pair of sockets of its own."""

import asyncio
import logging
import socket
from collections.abc import Coroutine
from contextlib import aclosing
from typing import Final

from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from edge.channel import Channel
from edge.channel.frames import CallContent, FrameProtocol, Kind, refusal_content
from edge.errors import Refusal
from edge.services import METHODS

_REQUESTS: Final = {rpc: GetMessageClass(method.input_type) for rpc, method in METHODS.items()}

_LOG = logging.getLogger(__name__)


class PairServer(FrameProtocol):
    """One end of a pair: calls the channel for the process at the other."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel = channel
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._wanted: dict[int, asyncio.Semaphore] = {}

    @classmethod
    async def pair(cls, channel: Channel) -> socket.socket:
        """Serves one end of a new pair, until the other is closed in all processes; returns the other."""
        own, other = socket.socketpair()
        await asyncio.get_running_loop().create_unix_connection(lambda: cls(channel), sock=own)
        return other

    def connection_lost(self, error: Exception | None) -> None:
        """Ends all calls."""
        super().connection_lost(error)
        for task in tuple(self._tasks.values()):
            task.cancel()

    def received(self, kind: int, call: int, content: bytes) -> None:
        """Begins a call, lets a stream go on, or ends either."""
        if kind == Kind.UNARY:
            self._begin(call, self._unary(call, CallContent.decoded(content)))
        elif kind == Kind.STREAM:
            self._wanted[call] = asyncio.Semaphore(1)
            self._begin(call, self._stream(call, CallContent.decoded(content), self._wanted[call]))
        elif kind == Kind.NEXT and call in self._wanted:
            self._wanted[call].release()
        elif kind == Kind.CANCEL and call in self._tasks:
            self._tasks[call].cancel()

    def _begin(self, call: int, answering: Coroutine[None, None, None]) -> None:
        task = self._tasks[call] = asyncio.get_running_loop().create_task(answering)
        task.add_done_callback(lambda _: self._end(call))

    def _end(self, call: int) -> None:
        del self._tasks[call]
        self._wanted.pop(call, None)

    async def _unary(self, call: int, content: CallContent) -> None:
        try:
            request, channel = _request(content), self._channel
            answer = channel.cached_answer(content.rpc, request, content.metadata)
            if answer is None:
                answer = await channel.unary(content.rpc, request, content.metadata, content.seconds)
            self.send(Kind.MESSAGE, call, answer.SerializeToString())
        except Exception as error:  # noqa: BLE001 - the caller learns of it
            self._refuse(call, error)

    async def _stream(self, call: int, content: CallContent, wanted: asyncio.Semaphore) -> None:
        try:
            stream = self._channel.stream(content.rpc, _request(content), content.metadata, content.seconds)
            async with aclosing(stream) as messages:
                while await wanted.acquire():
                    message = await anext(messages, None)
                    if message is None:
                        break
                    self.send(Kind.MESSAGE, call, message.SerializeToString())
            self.send(Kind.END, call)
        except Exception as error:  # noqa: BLE001 - the caller learns of it
            self._refuse(call, error)

    def _refuse(self, call: int, error: Exception) -> None:
        if not isinstance(error, Refusal):
            _LOG.error("A call of an edge failed", exc_info=error)
            error = Refusal("runtime_error")
        self.send(Kind.REFUSAL, call, refusal_content(error))


def _request(content: CallContent) -> Message:
    return _REQUESTS[content.rpc].FromString(content.request)
