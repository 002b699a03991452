"""Runs all parts by one command: the edge and the console call the backend in process, without a network between."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from backend.bootstrap import Backend
from backend.sandbox import Sandbox
from contract.channel.in_process import InProcessChannel
from deploy.config.addresses import GrpcAddress
from deploy.config.settings import Settings
from deploy.serve.backend import running_backend
from deploy.serve.edge import running_edge
from deploy.serve.lifecycle import run_until_stopped
from deploy.serve.metrics import serving_metrics
from deploy.serve.traces import recording_traces
from telemetry import MetricsRegistry


@dataclass(frozen=True, slots=True)
class Ready:
    """Addresses and data folder of a deployment that serves."""

    base_address: str
    grpc: GrpcAddress
    data: Path
    metrics: str | None = None
    console: str | None = None


def serve_embedded(
    settings: Settings,
    data: Path,
    on_ready: Callable[[Ready], None],
    open_sandbox: Callable[[], Sandbox] | None = None,
) -> None:
    """Serves until SIGTERM or SIGINT; `on_ready` is called in a thread once every part answers.

    `open_sandbox` hands a sandbox over that is chosen already.

    The parts stop in the order that loses nothing that was acknowledged: the console and the edge first, then gRPC,
    the runtime and the database.
    """

    async def serve(stop: asyncio.Event) -> None:
        async with (
            running_backend(settings, data, metrics, open_sandbox) as (backend, grpc),
            running_edge(settings, InProcessChannel(backend.handlers), metrics) as base_address,
            _optional_console(settings, backend, metrics) as console,
        ):
            await asyncio.to_thread(on_ready, Ready(base_address, grpc, data, metrics.url, console))
            # The first run would import what executes it; before this service was ready that would have delayed it.
            # Where it fails, as for want of file descriptors, the first run imports it after all.
            with suppress(ImportError, OSError):
                await asyncio.to_thread(import_module, "backend.runtime.execution.segment")
            await stop.wait()

    with serving_metrics(settings, "serve") as metrics, recording_traces(settings, "serve", metrics):
        run_until_stopped(serve)


@asynccontextmanager
async def _optional_console(
    settings: Settings, backend: Backend, metrics: MetricsRegistry
) -> AsyncIterator[str | None]:
    """Runs the console on a loop of its own where `console.listen` is set; yields its address, or None."""
    listen = settings.console.listen
    if listen is None:
        yield None
        return
    from deploy.serve.console import running_console
    from deploy.serve.own_loop import on_own_loop

    def console() -> AbstractAsyncContextManager[str]:
        # A channel serves one loop, and has threads of its own.
        return running_console(settings, listen, InProcessChannel(backend.handlers), metrics)

    # Pages do not hold up calls of the API.
    async with on_own_loop("console", console) as address:
        yield address
