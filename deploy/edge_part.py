"""The edge as it is served, alone or with the backend in one process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from deploy.addresses import Address
from deploy.lifecycle import cannot_listen
from deploy.settings import Settings, edge_settings
from edge.channel import Channel
from edge.routes import BASE
from edge.server import Edge

# What listens on every address of this machine is reached on its own loopback.
_REACHED_ON: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}


@asynccontextmanager
async def served_edge(settings: Settings, channel: Channel) -> AsyncIterator[str]:
    """Serve the HTTP API in front of `channel`, which is closed at the end.

    Gives the base address, as `http://127.0.0.1:8080/api/v1`.

    Raises:
        CommandFailed: the address cannot be bound; the message says why.
    """
    edge = Edge(edge_settings(settings), channel)
    try:
        try:
            await edge.start()
        except OSError as error:
            raise cannot_listen(error, settings.edge.http) from None
        host = settings.edge.http.host
        yield f"http://{Address(_REACHED_ON.get(host, host), edge.port)}{BASE}"
    finally:
        await edge.stop()
        await channel.close()
