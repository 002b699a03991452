"""Runs the console, in a process of its own or in one process with the other parts."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from console.app import Console
from console.settings import ConsoleSettings
from contract.channel import Channel
from deploy.config.addresses import LOOPBACK_OF_WILDCARD, Address
from deploy.config.settings import Settings, console_settings
from deploy.serve.lifecycle import bind_failure, run_until_stopped
from edge.admission.trial import try_call
from telemetry import MetricsRegistry

_DEFAULT: Final = ConsoleSettings()
DEFAULT_LISTEN: Final = Address(_DEFAULT.host, _DEFAULT.port)
"""Default address of a console in a process of its own."""


def serve_console(settings: Settings, on_ready: Callable[[str], None], metrics: MetricsRegistry) -> None:
    """Serves a remote backend's console until SIGTERM or SIGINT; `on_ready` gets the console's address."""
    from deploy.transport.grpc_channels import serving_channel

    async def serve(stop: asyncio.Event) -> None:
        async with (
            serving_channel(settings.console.backend, settings.console.backend_tls, "console", metrics) as channel,
            running_console(settings, settings.console.listen or DEFAULT_LISTEN, channel, metrics) as address,
        ):
            on_ready(address)
            await stop.wait()

    run_until_stopped(serve)


@asynccontextmanager
async def running_console(
    settings: Settings, listen: Address, channel: Channel, metrics: MetricsRegistry
) -> AsyncIterator[str]:
    """Runs the console over `channel`, and closes the channel at the end.

    Yields its address for a browser on this machine, such as `http://127.0.0.1:8081/`.

    Raises:
        CommandError: the address cannot be bound; the message says why.
    """
    try:
        console = Console(console_settings(settings, listen), channel, try_call)
        with metrics.registered(console.measured):
            try:
                try:
                    await console.start()
                except OSError as error:
                    raise bind_failure(error, listen, "console") from None
                yield f"http://{Address(LOOPBACK_OF_WILDCARD.get(listen.host, listen.host), console.port)}/"
            finally:
                await console.stop()
    finally:
        await channel.close()
