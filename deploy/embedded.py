"""Everything in one process: the backend, and in front of it the edge without a wire between them."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from deploy.addresses import GrpcAddress
from deploy.backend_part import served_backend
from deploy.edge_part import served_edge
from deploy.lifecycle import run_until_stopped
from deploy.metrics import served_metrics
from deploy.settings import Settings
from edge.channel.in_process import InProcessChannel


@dataclass(frozen=True, slots=True)
class Ready:
    """Where a deployment is served."""

    base_address: str
    grpc: GrpcAddress
    data: Path
    metrics: str | None = None


def serve_embedded(settings: Settings, data: Path, on_ready: Callable[[Ready], None]) -> None:
    """Serve until SIGTERM or SIGINT; `on_ready` is called in a thread once everything answers.

    The order of the end is that in which nothing acknowledged is lost: the edge first, then gRPC, the runtime and the
    database.
    """

    async def serve(stop: asyncio.Event) -> None:
        async with (
            served_backend(settings, data, metrics) as (backend, grpc),
            served_edge(settings, InProcessChannel(backend.handlers), metrics) as base_address,
        ):
            await asyncio.to_thread(on_ready, Ready(base_address, grpc, data, metrics.url))
            await stop.wait()

    with served_metrics(settings, "serve") as metrics:
        run_until_stopped(serve)
