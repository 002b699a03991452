"""Reads the frames that a step sends, as hostile."""

import asyncio
import socket
from collections.abc import Mapping

from backend.sandbox.inside.protocol import HEADER_BYTES, REQUEST

_READ_BYTES = 256 * 1024


class EndOfStepError(Exception):
    """The step closed its socket, mostly by dying, before it was done."""


class HostileFrameError(Exception):
    """The step sent what the runner never sends."""


class Frames:
    """The worker's side of a step's socket: reads frames and believes nothing about them.

    Who calls bounds the time; every length is checked before a byte of the payload is read. Each frame and each read
    takes a turn of the loop, so that a step that never stops sending holds nobody up.
    """

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()

    async def send_request(self, payload: bytes) -> None:
        """Send the one request of the step."""
        try:
            await self._loop.sock_sendall(self._channel, REQUEST.to_bytes() + len(payload).to_bytes(4, "big") + payload)
        except ConnectionError as error:
            raise EndOfStepError from error

    async def next(self, most: Mapping[int, int]) -> tuple[int, bytes]:
        """The next frame as (kind, payload); `most` holds the kinds allowed now and the most bytes of each."""
        await asyncio.sleep(0)
        kind, *size = await self._exactly(HEADER_BYTES)
        length = int.from_bytes(size, "big")
        if kind not in most:
            raise HostileFrameError(f"a frame of kind {kind} is not allowed here")
        if length > most[kind]:
            raise HostileFrameError(f"a frame of kind {kind} has {length} bytes")
        return kind, await self._exactly(length)

    async def fill(self, block: memoryview) -> None:
        """Read as many bytes as the block has room for."""
        early = self._received[: len(block)]
        del self._received[: len(block)]
        filled = len(early)
        block[:filled] = early
        while filled < len(block):
            filled += await self._receive_into(block[filled:])

    async def _exactly(self, count: int) -> bytes:
        # Grows with what arrives: a length alone reserves no memory.
        while len(self._received) < count:
            try:
                part = await self._loop.sock_recv(self._channel, _READ_BYTES)
            except ConnectionError as error:
                raise EndOfStepError from error
            if not part:
                raise EndOfStepError
            self._received += part
            await asyncio.sleep(0)
        payload = bytes(self._received[:count])
        del self._received[:count]
        return payload

    async def _receive_into(self, view: memoryview) -> int:
        try:
            count = await self._loop.sock_recv_into(self._channel, view)
        except ConnectionError as error:
            raise EndOfStepError from error
        if count == 0:
            raise EndOfStepError
        await asyncio.sleep(0)
        return count
