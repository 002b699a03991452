"""Frames by which an edge calls the process that started it, over a pair of sockets (decision 0026).

Both ends belong to one command, so that nothing is negotiated: no name is looked up, no credentials are shown and no
other process can connect. A frame is its length, its kind, the number of its call and a content.
"""

import asyncio
import struct
from enum import IntEnum
from typing import Final, NamedTuple, cast

import orjson

from edge.channel import Metadata
from edge.errors import Refusal

# Bytes of content, kind, number of the call: of 64 bits, as 32 would do for weeks of calls only.
_HEAD: Final = struct.Struct("<IBQ")
# Seconds, lengths of the RPC's name and of the metadata.
_CALL: Final = struct.Struct("<dHI")
_BETWEEN: Final = "\0"


class Kind(IntEnum):
    """What a frame says: of calls the first four, of answers the last three."""

    UNARY = 1
    STREAM = 2
    NEXT = 3
    CANCEL = 4
    MESSAGE = 5
    END = 6
    REFUSAL = 7


class CallContent(NamedTuple):
    """The content of UNARY and STREAM, which asks for the stream's first message, too."""

    rpc: str
    seconds: float
    metadata: Metadata
    request: bytes

    def encoded(self) -> bytes:
        """Returns it as bytes."""
        rpc = self.rpc.encode()
        metadata = _BETWEEN.join([text for pair in self.metadata for text in pair]).encode()
        return b"".join((_CALL.pack(self.seconds, len(rpc), len(metadata)), rpc, metadata, self.request))

    @classmethod
    def decoded(cls, content: bytes) -> "CallContent":
        """Returns what `encoded` was."""
        seconds, rpc_bytes, metadata_bytes = _CALL.unpack_from(content)
        begin = _CALL.size + rpc_bytes
        end = begin + metadata_bytes
        texts = content[begin:end].decode().split(_BETWEEN) if metadata_bytes else []
        pairs = tuple(zip(texts[::2], texts[1::2], strict=True))
        return cls(content[_CALL.size : begin].decode(), seconds, pairs, content[end:])


def refusal_content(refusal: Refusal) -> bytes:
    """Returns the content of REFUSAL."""
    return orjson.dumps((refusal.code, refusal.message, refusal.details, refusal.retry_after, refusal.headers))


def refusal_of(content: bytes) -> Refusal:
    """Returns the refusal in the content of REFUSAL."""
    code, message, details, retry_after, headers = orjson.loads(content)
    return Refusal(code, message, details=details, retry_after=retry_after, headers=headers)


class FrameProtocol(asyncio.Protocol):
    """One end: takes what arrives apart into frames, and sends frames."""

    def __init__(self) -> None:
        self._arrived = bytearray()
        self._unsent: list[bytes] = []
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins."""
        # uvloop's transports are no subclass of asyncio's.
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, _: Exception | None) -> None:
        """Ends."""
        self._transport = None

    def data_received(self, data: bytes) -> None:
        """Hands every frame that is complete over to `received`."""
        rest = self._arrived
        if rest:
            rest += data
            data = bytes(rest) if len(rest) >= self._needed() else b""
            if not data:
                return
            rest.clear()
        at = 0
        while len(data) - at >= _HEAD.size:
            length, kind, call = _HEAD.unpack_from(data, at)
            begin = at + _HEAD.size
            if begin + length > len(data):
                break
            at = begin + length
            self.received(kind, call, data[begin:at])
        rest += data[at:]

    def _needed(self) -> int:
        """Returns how many bytes the first frame has, as far as that is known."""
        arrived = self._arrived
        return _HEAD.size + (_HEAD.unpack_from(arrived)[0] if len(arrived) >= _HEAD.size else 0)

    def send(self, kind: Kind, call: int, content: bytes = b"") -> None:
        """Sends a frame; nothing where the other end is gone."""
        if self._transport is None:
            return
        if not self._unsent:
            # What one turn of the loop has to say is one write: of 16 calls at once each costs a third less.
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent += (_HEAD.pack(len(content), kind, call), content)

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if self._transport is not None:
            self._transport.write(b"".join(unsent))

    def received(self, kind: int, call: int, content: bytes) -> None:
        """Takes a frame."""
        raise NotImplementedError
