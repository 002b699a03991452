"""Channel to the services of the process that started this one.

A call costs a sixth of what it costs over gRPC, most of all in the process that serves it, which no further edge
relieves (`python -m benchmarks.edges`).
"""

import asyncio
import socket
from itertools import count
from typing import Final, Self

from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from edge.channel import LONGEST_STREAM_SECONDS, Messages, Metadata
from edge.channel.frames import CallContent, FrameProtocol, Kind, refusal_of
from edge.errors import Refusal
from edge.services import METHODS

_ANSWERS: Final = {rpc: GetMessageClass(method.output_type) for rpc, method in METHODS.items()}

_Answer = tuple[int, bytes]


class PairChannel(FrameProtocol):
    """A `Channel` over one of a pair of sockets, whose other end a `PairServer` serves."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[_Answer]] = {}

    @classmethod
    async def over(cls, end: socket.socket) -> Self:
        """Returns a channel over this end, which it closes."""
        _, channel = await asyncio.get_running_loop().create_unix_connection(cls, sock=end)
        return channel

    def cached_answer(
        self,
        rpc: str,  # noqa: ARG002 - as `Channel`
        request: Message,  # noqa: ARG002 - the same
        metadata: Metadata,  # noqa: ARG002 - the same
    ) -> Message | None:
        """Returns None: the answer cache is in the other process."""
        return None

    async def unary(self, rpc: str, request: Message, metadata: Metadata, seconds: float) -> Message:
        """Returns the answer of a unary RPC; see `Channel`."""
        call = next(self._numbers)
        content = CallContent(rpc, seconds, metadata, request.SerializeToString())
        kind, answer = await self._asked(Kind.UNARY, call, content.encoded(), seconds)
        return _message(rpc, kind, answer)

    async def stream(self, rpc: str, request: Message, metadata: Metadata, seconds: float) -> Messages:
        """Yields the messages of a server-streaming RPC; see `Channel`. Each is asked for when it is wanted."""
        call = next(self._numbers)
        content = CallContent(rpc, seconds, metadata, request.SerializeToString()).encoded()
        until = asyncio.get_running_loop().time() + LONGEST_STREAM_SECONDS
        asking, goes_on = Kind.STREAM, True
        try:
            while goes_on:
                left = until - asyncio.get_running_loop().time()
                kind, answer = await self._asked(asking, call, content, min(seconds, left))
                goes_on = kind == Kind.MESSAGE
                if kind == Kind.END:
                    return
                yield _message(rpc, kind, answer)
                asking, content = Kind.NEXT, b""
        finally:
            if goes_on:
                self.send(Kind.CANCEL, call)

    async def close(self) -> None:
        """Ends all calls and closes the socket."""
        if self._transport is not None:
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        """Ends all calls."""
        super().connection_lost(error)
        for waiting in self._waiting.values():
            _refuse(waiting)

    def received(self, kind: int, call: int, content: bytes) -> None:
        """Takes an answer; one that is waited for no more is left out."""
        waiting = self._waiting.get(call)
        if waiting is not None and not waiting.done():
            waiting.set_result((kind, content))

    async def _asked(self, kind: Kind, call: int, content: bytes, seconds: float) -> _Answer:
        """Sends a frame and returns the answer to it; raises Refusal where none comes within `seconds`."""
        loop = asyncio.get_running_loop()
        if self._transport is None:
            raise Refusal("runtime_unreachable")
        waiting: asyncio.Future[_Answer] = loop.create_future()
        self._waiting[call] = waiting
        timer = loop.call_later(seconds, _refuse, waiting)
        self.send(kind, call, content)
        try:
            return await waiting
        except BaseException:
            self.send(Kind.CANCEL, call)
            raise
        finally:
            timer.cancel()
            del self._waiting[call]


def _message(rpc: str, kind: int, content: bytes) -> Message:
    if kind == Kind.REFUSAL:
        raise refusal_of(content)
    try:
        return _ANSWERS[rpc].FromString(content)
    except DecodeError:
        raise Refusal("runtime_error") from None


def _refuse(waiting: "asyncio.Future[_Answer]") -> None:
    if not waiting.done():
        waiting.set_exception(Refusal("runtime_unreachable"))
