"""Reads the frames of a step, as untrusted data.

What is there already is read at once, as READY of a sandbox that waited for its step: to have the event loop wait for
it is ten system calls. (`strace` of a one-step run.)
"""

import asyncio
import socket
from collections.abc import Mapping

from backend.sandbox.inside.protocol import HEADER_BYTES, REQUEST

_READ_BYTES = 256 * 1024


class EndOfStepError(Exception):
    """The step closed its socket before its result, mostly by dying."""


class HostileFrameError(Exception):
    """The step sent a frame that the runner never sends."""


class Frames:
    """The worker's end of a step's socket.

    Every length is checked before the payload is read; the caller bounds the time. Each frame and each read yields to
    the event loop, so that a step that sends without pause does not block it.
    """

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()

    async def send_request(self, payload: bytes) -> None:
        """Sends the one request of the step."""
        try:
            await self._loop.sock_sendall(self._channel, REQUEST.to_bytes() + len(payload).to_bytes(4, "big") + payload)
        except ConnectionError as error:
            raise EndOfStepError from error

    async def next(self, most: Mapping[int, int]) -> tuple[int, bytes]:
        """Returns the next frame as (kind, payload); `most` has the largest payload of each kind allowed now."""
        if self._received:
            await asyncio.sleep(0)
        kind, *size = await self._exactly(HEADER_BYTES)
        length = int.from_bytes(size, "big")
        if kind not in most:
            raise HostileFrameError(f"a frame of kind {kind} is not allowed here")
        if length > most[kind]:
            raise HostileFrameError(f"a frame of kind {kind} has {length} bytes")
        return kind, await self._exactly(length)

    async def fill(self, block: memoryview) -> None:
        """Reads as many bytes as the block has room for."""
        early = self._received[: len(block)]
        del self._received[: len(block)]
        filled = len(early)
        block[:filled] = early
        while filled < len(block):
            filled += await self._receive_into(block[filled:])

    async def _exactly(self, count: int) -> bytes:
        # The buffer grows with the data received: an announced length reserves no memory.
        while len(self._received) < count:
            try:
                part = await self._receive()
            except ConnectionError as error:
                raise EndOfStepError from error
            if not part:
                raise EndOfStepError
            self._received += part
            await asyncio.sleep(0)
        payload = bytes(self._received[:count])
        del self._received[:count]
        return payload

    async def _receive(self) -> bytes:
        try:
            return self._channel.recv(_READ_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return await self._loop.sock_recv(self._channel, _READ_BYTES)

    async def _receive_into(self, view: memoryview) -> int:
        try:
            count = await self._loop.sock_recv_into(self._channel, view)
        except ConnectionError as error:
            raise EndOfStepError from error
        if count == 0:
            raise EndOfStepError
        await asyncio.sleep(0)
        return count
