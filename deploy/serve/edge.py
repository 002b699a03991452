"""Runs the edge, in a process of its own or in one process with the backend."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from backend.common.secrets import SecretError, Secrets
from contract.channel import Channel
from contract.routes import BASE
from deploy.config.addresses import LOOPBACK_OF_WILDCARD, Address
from deploy.config.secret_references import redis_address
from deploy.config.settings import Settings, edge_settings
from deploy.failures import CommandError
from deploy.serve.lifecycle import bind_failure, freeze_startup_objects, raise_open_files_limit, run_until_stopped
from edge.admission.rate_limit import LocalRateLimiter, RateLimiter
from edge.server import Edge
from telemetry import MetricsRegistry


def serve_edge(settings: Settings, on_ready: Callable[[str], None], metrics: MetricsRegistry) -> None:
    """Serves a remote backend's HTTP API until SIGTERM or SIGINT; `on_ready` gets the base address."""
    from deploy.transport.grpc_channels import serving_channel

    async def serve(stop: asyncio.Event) -> None:
        async with (
            serving_channel(settings.edge.backend, settings.edge.backend_tls, "edge", metrics) as channel,
            running_edge(settings, channel, metrics) as base_address,
        ):
            on_ready(base_address)
            await stop.wait()

    run_until_stopped(serve)


@asynccontextmanager
async def running_edge(settings: Settings, channel: Channel, metrics: MetricsRegistry) -> AsyncIterator[str]:
    """Runs the HTTP API over `channel`, and closes the channel at the end.

    Yields the base address, such as `http://127.0.0.1:8080/api/v1`.

    Raises:
        CommandError: the address cannot be bound, or Redis's address cannot be read; the message says why.
    """
    try:
        async with _rate_limiter(settings) as limiter:
            wanted = edge_settings(settings)
            possible = replace(wanted, connections=raise_open_files_limit(wanted.connections))
            edge = Edge(possible, channel, limiter=limiter)
            with metrics.registered(edge.measured):
                try:
                    try:
                        await edge.start()
                    except OSError as error:
                        raise bind_failure(error, settings.edge.http) from None
                    freeze_startup_objects()
                    host = settings.edge.http.host
                    yield f"http://{Address(LOOPBACK_OF_WILDCARD.get(host, host), edge.port)}{BASE}"
                finally:
                    await edge.stop()
    finally:
        await channel.close()


@asynccontextmanager
async def _rate_limiter(settings: Settings) -> AsyncIterator[RateLimiter]:
    """Yields the rate limiter: over Redis if `edge.redis_url` is set, else in memory."""
    redis_url = settings.edge.redis_url
    if redis_url is None:
        yield LocalRateLimiter()
        return
    from edge.admission.shared_rate_limit import RedisRateLimiter

    secrets = Secrets(settings.secrets, os.environ)
    try:
        redis_address(redis_url, secrets)
    except SecretError as error:
        raise CommandError(f"The address of Redis cannot be read: {error}.", code="invalid_settings") from None
    limiter = RedisRateLimiter(lambda: redis_address(redis_url, secrets))
    try:
        yield limiter
    finally:
        await limiter.close()
