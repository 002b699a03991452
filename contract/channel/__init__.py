"""Channels by which edge and console call the services: over gRPC, or directly within one process."""

from collections.abc import AsyncGenerator, Sequence
from typing import Final, Protocol

from google.protobuf.message import Message

from contract.local_context import CachedAnswer

Messages = AsyncGenerator[Message, None]
Metadata = Sequence[tuple[str, str]]

LONGEST_STREAM_SECONDS: Final = 4 * 3600.0
"""Deadline of a streaming RPC as a whole."""


class Channel(Protocol):
    """Calls RPCs by their full name, as `/workflow_api.v1.RunsService/GetRun`."""

    async def answer(self, rpc: str, request: Message, metadata: Metadata, seconds: float) -> CachedAnswer:
        """Returns the answer of a unary RPC as `unary` does, in a `CachedAnswer` that the edge adds its JSON to.

        In one process repeated calls return one object while the answer cache holds it.
        """
        ...

    async def unary(self, rpc: str, request: Message, metadata: Metadata, seconds: float) -> Message:
        """Returns the answer of a unary RPC.

        Raises:
            Refusal: the servicer's refusal; `runtime_unreachable` when nothing answered within `seconds`;
                `runtime_error` for an answer that no servicer made.
        """
        ...

    def stream(self, rpc: str, request: Message, metadata: Metadata, seconds: float) -> Messages:
        """Returns the messages of a server-streaming RPC; closing the iterator ends the RPC.

        `seconds` bounds the wait for each message. Raises as `unary` does.
        """
        ...

    async def close(self) -> None:
        """Releases the channel's resources."""
        ...
