"""Channel whose calls have spans within the present trace, where traces are on."""

from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from google.protobuf.message import Message

from contract.channel import Channel, Messages, Metadata
from contract.channel.in_process import InProcessChannel
from contract.local_context import CachedAnswer
from contract.refusals import Refusal
from telemetry import tracing as traces

if TYPE_CHECKING:
    from telemetry.otel import Tracing

_SYSTEM: Final = {"rpc.system.name": "grpc"}


def traced(channel: Channel) -> Channel:
    """Returns the channel, wrapped in a `TracedChannel` where traces are on."""
    tracing = traces.active()
    if tracing is None:
        return channel
    return TracedChannel(channel, tracing, remote=not isinstance(channel, InProcessChannel))


class TracedChannel:
    """A `Channel` around another that gives spans to unary calls to other processes."""

    def __init__(self, channel: Channel, tracing: "Tracing", *, remote: bool) -> None:
        self._channel = channel
        self._tracing = tracing
        self._remote = remote
        self.close = channel.close

    async def answer(self, rpc: str, request: Message, metadata: Metadata, seconds: float) -> CachedAnswer:
        """Returns the answer of a unary RPC; see `Channel`."""
        if self._remote:
            return CachedAnswer(await self.unary(rpc, request, metadata, seconds))
        return await self._channel.answer(rpc, request, self._with_carrier(metadata), seconds)

    async def unary(self, rpc: str, request: Message, metadata: Metadata, seconds: float) -> Message:
        """Returns the answer of a unary RPC; see `Channel`."""
        tracing = self._tracing
        if not self._remote or not tracing.recording:
            return await self._channel.unary(rpc, request, self._with_carrier(metadata), seconds)
        with tracing.child(rpc[1:], _SYSTEM | {"rpc.method": rpc[1:]}, kind=tracing.CLIENT) as span:
            try:
                return await self._channel.unary(rpc, request, self._with_carrier(metadata), seconds)
            except Refusal as refusal:
                span.set_attribute("workflow_api.error_code", refusal.code)
                raise

    async def stream(self, rpc: str, request: Message, metadata: Metadata, seconds: float) -> Messages:
        """Yields the messages of a server-streaming RPC; see `Channel`."""
        async with aclosing(self._channel.stream(rpc, request, self._with_carrier(metadata), seconds)) as messages:
            async for message in messages:
                yield message

    def _with_carrier(self, metadata: Metadata) -> Metadata:
        return (*metadata, *self._tracing.carrier().items())
