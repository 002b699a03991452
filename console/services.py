"""Calls of the services in the name of the user who has signed in."""

from typing import Any, Final

from google.protobuf.message import Message

from contract import metadata
from contract.channel import Channel, Messages, Metadata

PERSON: Final = "user:"
"""What the actor of a person who has signed in begins with; the name follows."""

_PACKAGE: Final = "/workflow_api.v1."
_LONG_SECONDS: Final = {"UploadsService/FinishUploadedFile": 300.0, "WorkflowsService/ApplyManifests": 90.0}
"""Calls that take longer than others: they expand a large zip, or resolve the packages of an environment."""


class ChannelServices:
    """`Services` over a channel, for one request; the audit names `actor`."""

    def __init__(self, channel: Channel, actor: str, request_id: str, seconds: float) -> None:
        self._channel = channel
        person = actor.removeprefix(PERSON) if actor.startswith(PERSON) else ""
        self._metadata: Metadata = (
            (metadata.ACTOR, metadata.encode_actor(actor)),
            (metadata.PERSON, person),
            (metadata.REQUEST_ID, request_id),
        )
        self._seconds = seconds

    async def call(self, rpc: str, request: Message) -> Any:
        """Returns the answer of a unary RPC; see `Services`."""
        return await self._channel.unary(_PACKAGE + rpc, request, self._metadata, _LONG_SECONDS.get(rpc, self._seconds))

    def stream(self, rpc: str, request: Message, seconds: float) -> Messages:
        """Returns the messages of a streaming RPC; see `Services`."""
        return self._channel.stream(_PACKAGE + rpc, request, self._metadata, seconds)
