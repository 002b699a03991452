"""Several edge processes on one address: their parent starts them, and replaces each one that ends.

The parent listens and accepts nothing; each process accepts from the sockets that it inherits. So a connection that is
not accepted yet is lost with no process, as long as one is left or will be. Each is an edge with an event loop and a
channel of its own. It ends in an orderly way on SIGTERM, and when its parent is gone: its standard input, which the
parent holds open, then ends.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from deploy.config.settings import Settings
from deploy.serve.edge_process import METRICS_SECONDS, Connect, EdgeProcess
from deploy.serve.lifecycle import bind_failure, run_until_stopped
from edge.http.listener import listening_sockets
from edge.shared_memory.share import ShareOwner
from telemetry import Family, MetricSource, MetricsRegistry


def serve_processes(settings: Settings, on_ready: Callable[[str], None], metrics: MetricsRegistry) -> None:
    """Serves until SIGTERM or SIGINT with `edge.processes` processes; `on_ready` gets the base address.

    Raises:
        CommandError: the address cannot be bound, or a process cannot start; the message says why.
    """

    async def serve(stop: asyncio.Event) -> None:
        async with running_processes(settings, settings.edge.processes, stop, metrics) as base_address:
            if base_address is not None:
                on_ready(base_address)
                await stop.wait()

    run_until_stopped(serve)


@asynccontextmanager
async def running_processes(
    settings: Settings,
    number: int,
    stop: asyncio.Event,
    metrics: MetricsRegistry,
    connect: Connect | None = None,
) -> AsyncIterator[str | None]:
    """Runs so many processes and yields the base address once all of them serve; None where `stop` is set before.

    `connect` gives each a socket that leads to the backend; without it the settings say where that is.

    Raises:
        CommandError: the address cannot be bound, or a process cannot start; the message says why.
    """
    http = settings.edge.http
    try:
        owner = ShareOwner(number, listening_sockets(http.host, http.port))
    except OSError as error:
        raise bind_failure(error, http) from None
    processes = [
        EdgeProcess(settings, owner.files(each), partial(owner.forget, each), connect) for each in range(number)
    ]
    keeping = [asyncio.create_task(process.keep()) for process in processes]
    stopping = asyncio.create_task(stop.wait())
    started = asyncio.gather(*(process.ready for process in processes))
    first: list[asyncio.Future[Any]] = [stopping, started]
    under_way = [*keeping, *first]
    with metrics.registered(_metrics_of(processes)):
        try:
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            yield started.result()[0] if started.done() else None
        finally:
            # Were these open, callers who connect from now on would wait for nobody.
            owner.close()
            for each in under_way:
                each.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)
            await asyncio.gather(*(process.stop() for process in processes))


def _metrics_of(processes: Sequence[EdgeProcess]) -> MetricSource:
    """Returns a source that asks every process, to be called in another thread than that of the running loop.

    Each process has its own series, labelled with its position: the counters of a replaced process begin at 0 again,
    and a sum over all processes would then go down although nothing was lost.
    """
    loop = asyncio.get_running_loop()

    async def ask_all() -> list[list[Family]]:
        return await asyncio.gather(*(process.metrics() for process in processes))

    def collect() -> Iterator[Family]:
        answers = asyncio.run_coroutine_threadsafe(ask_all(), loop).result(2 * METRICS_SECONDS)
        for position, families in enumerate(answers):
            for family in families:
                own = [sample._replace(labels={**sample.labels, "process": str(position)}) for sample in family.samples]
                yield family._replace(samples=own)

    return collect
