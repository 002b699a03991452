"""The edge as it is served, alone or with the backend in one process."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from backend.secrets import SecretError, Secrets
from deploy.cli.failures import CommandFailed
from deploy.config.addresses import REACHED_ON, Address
from deploy.config.redis_address import redis_address
from deploy.config.settings import Settings, edge_settings
from deploy.serve.lifecycle import allow_connections, cannot_listen, run_until_stopped, settle_memory
from deploy.serve.metrics import Metrics
from edge.admission.rate_limit import LocalRateLimiter, RateLimiter
from edge.channel import Channel
from edge.routes import BASE
from edge.server import Edge


def serve_edge(settings: Settings, on_ready: Callable[[str], None], metrics: Metrics) -> None:
    """Serve until SIGTERM or SIGINT in front of a backend elsewhere; `on_ready` gets the base address."""
    from deploy.serve.grpc_channels import serving_channel

    async def serve(stop: asyncio.Event) -> None:
        channel = serving_channel(settings.edge.backend, settings.edge.backend_tls)
        async with served_edge(settings, channel, metrics) as base_address:
            on_ready(base_address)
            await stop.wait()

    run_until_stopped(serve)


@asynccontextmanager
async def served_edge(settings: Settings, channel: Channel, metrics: Metrics) -> AsyncIterator[str]:
    """Serve the HTTP API in front of `channel`, which is closed at the end.

    Gives the base address, as `http://127.0.0.1:8080/api/v1`.

    Raises:
        CommandFailed: the address cannot be bound, or that of Redis cannot be had; the message says why.
    """
    try:
        async with rate_limiter(settings) as limiter:
            told = edge_settings(settings)
            edge = Edge(replace(told, connections=allow_connections(told.connections)), channel, limiter=limiter)
            with metrics.told_by(edge.measured):
                try:
                    try:
                        await edge.start()
                    except OSError as error:
                        raise cannot_listen(error, settings.edge.http) from None
                    settle_memory()
                    host = settings.edge.http.host
                    yield f"http://{Address(REACHED_ON.get(host, host), edge.port)}{BASE}"
                finally:
                    await edge.stop()
    finally:
        await channel.close()


@asynccontextmanager
async def rate_limiter(settings: Settings) -> AsyncIterator[RateLimiter]:
    """Give what counts calls: Redis where there is one, else this process's memory."""
    told = settings.edge.redis_url
    if told is None:
        yield LocalRateLimiter()
        return
    from edge.admission.shared_rate_limit import RedisRateLimiter

    secrets = Secrets(settings.secrets, os.environ)
    try:
        redis_address(told, secrets)
    except SecretError as error:
        raise CommandFailed(f"The address of Redis cannot be had: {error}.", code="invalid_settings") from None
    limiter = RedisRateLimiter(lambda: redis_address(told, secrets))
    try:
        yield limiter
    finally:
        await limiter.close()
