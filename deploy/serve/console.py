"""The console as it is served, alone or with everything else in one process."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from deploy.config.addresses import REACHED_ON, Address
from deploy.config.settings import Settings, console_settings
from deploy.serve.lifecycle import cannot_listen, run_until_stopped
from deploy.serve.metrics import Metrics
from edge.channel import Channel
from edge.console.app import Console
from edge.console.settings import ConsoleSettings

_DEFAULT: Final = ConsoleSettings()
DEFAULT_LISTEN: Final = Address(_DEFAULT.host, _DEFAULT.port)
"""Where a console of its own listens when nothing else is said."""


def serve_console(settings: Settings, on_ready: Callable[[str], None], metrics: Metrics) -> None:
    """Serve until SIGTERM or SIGINT in front of a backend elsewhere; `on_ready` gets the console's address."""
    from deploy.serve.grpc_channels import serving_channel

    async def serve(stop: asyncio.Event) -> None:
        channel = serving_channel(settings.console.backend, settings.console.backend_tls)
        async with served_console(settings, settings.console.listen or DEFAULT_LISTEN, channel, metrics) as address:
            on_ready(address)
            await stop.wait()

    run_until_stopped(serve)


@asynccontextmanager
async def served_console(settings: Settings, listen: Address, channel: Channel, metrics: Metrics) -> AsyncIterator[str]:
    """Serve the console in front of `channel`, which is closed at the end.

    Gives its address for a browser on this machine, as `http://127.0.0.1:8081/`.

    Raises:
        CommandFailed: the address cannot be bound; the message says why.
    """
    try:
        console = Console(console_settings(settings, listen), channel)
        with metrics.told_by(console.measured):
            try:
                try:
                    await console.start()
                except OSError as error:
                    raise cannot_listen(error, listen, "console") from None
                yield f"http://{Address(REACHED_ON.get(listen.host, listen.host), console.port)}/"
            finally:
                await console.stop()
    finally:
        await channel.close()
