"""Runs all parts by one command: the edge and the console call the backend in process, without a network between."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from backend.bootstrap import Backend
from backend.isolation.sandbox import Sandbox
from contract.channel.in_process import InProcessChannel
from deploy.config.addresses import GrpcAddress
from deploy.config.settings import Settings
from deploy.serve.backend import running_backend
from deploy.serve.edge import running_edge
from deploy.serve.lifecycle import run_until_stopped
from deploy.serve.metrics import serving_metrics
from deploy.serve.traces import recording_traces
from telemetry import MetricsRegistry

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ServingDeployment:
    """Addresses and data folder of a deployment that serves."""

    base_address: str
    grpc: GrpcAddress
    data: Path
    metrics: str | None = None
    console: str | None = None


def serve_embedded(
    settings: Settings,
    data: Path,
    on_ready: Callable[[ServingDeployment], None],
    open_sandbox: Callable[[], Sandbox] | None = None,
) -> None:
    """Serves until SIGTERM or SIGINT; `on_ready` is called in a thread once every part answers.

    `open_sandbox` returns a sandbox that was chosen earlier. The parts stop in an order that loses nothing
    acknowledged: the console and the edge first, then gRPC, the runtime and the database.
    """

    async def serve(stop: asyncio.Event) -> None:
        async with (
            running_backend(settings, data, metrics, open_sandbox) as (backend, grpc),
            running_edge(settings, InProcessChannel(backend.handlers), metrics) as base_address,
            _optional_console(_at(settings, base_address), backend, metrics) as console,
        ):
            await asyncio.to_thread(on_ready, ServingDeployment(base_address, grpc, data, metrics.url, console))
            # Imports the code that executes runs, so that the first run need not; earlier it would have delayed
            # readiness. Where it fails, as for want of file descriptors, the first run imports it after all.
            with suppress(ImportError, OSError):
                await asyncio.to_thread(import_module, "backend.runtime.execution.segment")
            await stop.wait()

    with serving_metrics(settings, "serve") as metrics, recording_traces(settings, "serve", metrics):
        run_until_stopped(serve)


@asynccontextmanager
async def on_own_loop(name: str, open_part: Callable[[], AbstractAsyncContextManager[T]]) -> AsyncIterator[T]:
    """Runs the context of `open_part` on a new event loop in a new thread; `name` is the thread's.

    Yields the value of that context, and waits until it is left. Its errors are raised here.
    """
    import uvloop

    entered: Future[T] = Future()
    leave: Future[None] = Future()
    left: Future[None] = Future()

    async def hold() -> None:
        async with open_part() as value:
            entered.set_result(value)
            await asyncio.wrap_future(leave)

    def run() -> None:
        try:
            uvloop.run(hold())
        except BaseException as error:  # noqa: BLE001 - it is raised by whoever waits
            left.set_exception(error)
        else:
            left.set_result(None)

    # A second signal ends the process, even if the thread hangs.
    threading.Thread(target=run, name=name, daemon=True).start()
    ended = asyncio.wrap_future(left)
    try:
        either: list[asyncio.Future[Any]] = [ended, asyncio.wrap_future(entered)]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            yield entered.result()
    finally:
        leave.set_result(None)
        # Raises the error of entering the context.
        await asyncio.shield(ended)


def _at(settings: Settings, base_address: str) -> Settings:
    """Returns the settings with the port at which the HTTP API listens, of which port 0 lets the system choose."""
    http = replace(settings.edge.http, port=urlsplit(base_address).port or settings.edge.http.port)
    return replace(settings, edge=replace(settings.edge, http=http))


@asynccontextmanager
async def _optional_console(
    settings: Settings, backend: Backend, metrics: MetricsRegistry
) -> AsyncIterator[str | None]:
    """Runs the console on a loop of its own if `console.listen` is set; yields its address, or None."""
    listen = settings.console.listen
    if listen is None:
        yield None
        return
    from deploy.serve.console import running_console

    def console() -> AbstractAsyncContextManager[str]:
        # A channel serves one loop, and has threads of its own.
        return running_console(settings, listen, InProcessChannel(backend.handlers), metrics)

    # A loop of its own, so that pages do not delay calls of the API.
    async with on_own_loop("console", console) as address:
        yield address
