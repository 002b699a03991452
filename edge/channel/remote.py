"""The channel to a backend in another process, over gRPC."""

import asyncio
from typing import Any, Final

import grpc
import grpc.aio
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from edge.channel import Messages, Metadata
from edge.channel.trailer import STATUS_TRAILER, refusal_from_trailer
from edge.errors import Refusal
from edge.services import METHODS

CHANNEL_OPTIONS: Final = (
    # A mirror of many keys or a page of large events is more than gRPC takes by itself.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_metadata_size", 4 * 1_048_576),
    ("grpc.absolute_max_metadata_size", 4 * 1_048_576),
    # The backend is near; a proxy for the outside world has no part in this.
    ("grpc.enable_http_proxy", 0),
    # grpc's own pauses grow to two minutes; a backend that comes back is to be found within seconds.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # A peer that vanished without a word is noticed while the watch stream is open.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
)
"""What a grpc.aio channel to the backend should be opened with."""

_UNANSWERED: Final = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED})


class RemoteChannel:
    """A `Channel` over an open grpc.aio channel, which it closes."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel
        self._calls: dict[str, Any] = {rpc: self._multicallable(rpc, method) for rpc, method in METHODS.items()}

    async def unary(self, rpc: str, request: Message, metadata: Metadata, seconds: float) -> Message:
        """Return the answer of a unary RPC; see `Channel`."""
        try:
            answer: Message | None = await self._calls[rpc](request, metadata=metadata, timeout=seconds)
        except grpc.aio.AioRpcError as error:
            raise _refusal(error) from error
        return _readable(answer)

    async def stream(self, rpc: str, request: Message, metadata: Metadata, seconds: float | None) -> Messages:
        """Yield the messages of a server-streaming RPC; see `Channel`."""
        call = self._calls[rpc](request, metadata=metadata)
        try:
            while True:
                async with asyncio.timeout(seconds):
                    message = await call.read()
                if message is grpc.aio.EOF:
                    return
                yield _readable(message)
        except grpc.aio.AioRpcError as error:
            raise _refusal(error) from error
        except TimeoutError:
            raise Refusal("runtime_unreachable") from None
        finally:
            call.cancel()

    async def close(self) -> None:
        """Close the grpc channel."""
        await self._channel.close()

    def _multicallable(self, rpc: str, method: MethodDescriptor) -> Any:
        make = self._channel.unary_stream if method.server_streaming else self._channel.unary_unary
        return make(
            rpc,
            request_serializer=GetMessageClass(method.input_type).SerializeToString,
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )


def _readable(message: Message | None) -> Message:
    if message is None:  # what grpc could not parse
        raise Refusal("runtime_error")
    return message


def _refusal(error: grpc.aio.AioRpcError) -> Refusal:
    trailer = error.trailing_metadata().get(STATUS_TRAILER)
    if trailer is None and error.code() in _UNANSWERED:
        return Refusal("runtime_unreachable")
    return refusal_from_trailer(trailer)
