"""Everything in one process: the backend, and in front of it the edge and the console without a wire between."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from backend.bootstrap import Backend
from deploy.config.addresses import GrpcAddress
from deploy.config.settings import Settings
from deploy.serve.backend import served_backend
from deploy.serve.edge import served_edge
from deploy.serve.lifecycle import run_until_stopped
from deploy.serve.metrics import Metrics, served_metrics
from edge.channel.in_process import InProcessChannel


@dataclass(frozen=True, slots=True)
class Ready:
    """Where a deployment is served."""

    base_address: str
    grpc: GrpcAddress
    data: Path
    metrics: str | None = None
    console: str | None = None


def serve_embedded(settings: Settings, data: Path, on_ready: Callable[[Ready], None]) -> None:
    """Serve until SIGTERM or SIGINT; `on_ready` is called in a thread once everything answers.

    The order of the end is that in which nothing acknowledged is lost: the console and the edge first, then gRPC, the
    runtime and the database.
    """

    async def serve(stop: asyncio.Event) -> None:
        async with (
            served_backend(settings, data, metrics) as (backend, grpc),
            served_edge(settings, InProcessChannel(backend.handlers), metrics) as base_address,
            _console(settings, backend, metrics) as console,
        ):
            await asyncio.to_thread(on_ready, Ready(base_address, grpc, data, metrics.url, console))
            await stop.wait()

    with served_metrics(settings, "serve") as metrics:
        run_until_stopped(serve)


@asynccontextmanager
async def _console(settings: Settings, backend: Backend, metrics: Metrics) -> AsyncIterator[str | None]:
    """Serve the console where the settings say so; gives its address."""
    listen = settings.console.listen
    if listen is None:
        yield None
        return
    from deploy.serve.console import served_console

    # Threads of its own: what a person looks at keeps no call of the API waiting.
    channel = InProcessChannel(backend.handlers)
    async with served_console(settings, listen, channel, metrics) as address:
        yield address
