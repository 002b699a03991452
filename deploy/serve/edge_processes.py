"""Several edge processes on one address: a small parent starts them, and replaces each one that ends.

The kernel spreads new connections over them. Each is an edge with an event loop and a channel of its own. It ends in an
orderly way on SIGTERM, and when its parent is gone: its standard input, which the parent holds open, then ends.
"""

import asyncio
import json
import logging
import pickle
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Final

from deploy.config.addresses import Address
from deploy.config.settings import Settings
from deploy.failures import CommandFailed
from deploy.serve.lifecycle import bind_failure, run_until_stopped
from telemetry import Family, MetricSource, MetricsRegistry, Sample

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0
# A process that lived longer than this did not fail during its start.
_HEALTHY_SECONDS: Final = 10.0
# How long an edge may take to stop, beyond the time for calls under way.
_STOP_SECONDS: Final = 15.0

# Bounds on the time and size of one process's metrics.
_METRICS_SECONDS: Final = 2.0
_METRICS_BYTES: Final = 16 * 1_048_576

_LOG = logging.getLogger(__name__)


def serve_processes(settings: Settings, on_ready: Callable[[str], None], metrics: MetricsRegistry) -> None:
    """Serves until SIGTERM or SIGINT with `edge.processes` processes; `on_ready` gets the base address.

    Raises:
        CommandFailed: the address cannot be bound, or a process cannot start; the message says why.
    """

    async def serve(stop: asyncio.Event) -> None:
        with _reserved(settings.edge.http) as http:
            own = replace(settings, edge=replace(settings.edge, http=http))
            processes = [_EdgeProcess(own) for _ in range(settings.edge.processes)]
            keeping = [asyncio.create_task(process.keep()) for process in processes]
            stopping = asyncio.create_task(stop.wait())
            started = asyncio.gather(*(process.ready for process in processes))
            under_way: list[asyncio.Future[Any]] = [*keeping, stopping, started]
            with metrics.registered(_metrics_of(processes)):
                try:
                    await asyncio.wait(under_way[-2:], return_when=asyncio.FIRST_COMPLETED)
                    if started.done():
                        on_ready(started.result()[0])
                        await stopping
                finally:
                    for each in under_way:
                        each.cancel()
                    await asyncio.gather(*under_way, return_exceptions=True)
                    await asyncio.gather(*(process.stop() for process in processes))

    run_until_stopped(serve)


def _metrics_of(processes: Sequence["_EdgeProcess"]) -> MetricSource:
    """Returns a source that asks every process, to be called in another thread than that of the running loop.

    Each process has its own series, labelled with its position: the counters of a replaced process begin at 0 again,
    and a sum over all processes would then go down although nothing was lost.
    """
    loop = asyncio.get_running_loop()

    async def ask_all() -> list[list[Family]]:
        return await asyncio.gather(*(process.metrics() for process in processes))

    def collect() -> Iterator[Family]:
        answers = asyncio.run_coroutine_threadsafe(ask_all(), loop).result(2 * _METRICS_SECONDS)
        by_name: dict[str, Family] = {}
        for position, families in enumerate(answers):
            for family in families:
                own = [sample._replace(labels={**sample.labels, "process": str(position)}) for sample in family.samples]
                merged = by_name.get(family.name)
                by_name[family.name] = family._replace(samples=[*(merged.samples if merged else ()), *own])
        return iter(by_name.values())

    return collect


class _EdgeProcess:
    """One of the processes, and those that replace it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._requests = 0
        self._requesting = asyncio.Lock()
        self._serves = False
        self._process: Process | None = None
        self.ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """The base address once the first process serves, or the reason why it cannot."""

    async def keep(self) -> None:
        """Starts a process, and another one whenever it ends."""
        loop = asyncio.get_running_loop()
        pause = _FIRST_PAUSE
        while True:
            began = loop.time()
            code, failure = await self._run()
            if not self.ready.done():
                self.ready.set_exception(
                    failure or CommandFailed(f"An edge process ended with {code} before it was ready.")
                )
                return
            pause = _FIRST_PAUSE if loop.time() - began > _HEALTHY_SECONDS else min(2 * pause, _LONGEST_PAUSE)
            _LOG.warning("An edge process ended (%s) and is replaced", failure.message if failure else f"code {code}")
            await asyncio.sleep(pause)

    async def stop(self) -> None:
        """Terminates the process, and kills it where it takes too long."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(self._settings.edge.drain_seconds + _STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            _LOG.warning("An edge process did not stop in time and is killed")
            process.kill()
            await process.wait()

    async def metrics(self) -> list[Family]:
        """Returns the metrics of the process; empty where it does not serve yet or does not answer in time."""
        try:
            async with asyncio.timeout(_METRICS_SECONDS), self._requesting:
                return await self._request_metrics() if self._serves else []
        except (TimeoutError, OSError, ValueError):
            _LOG.warning("An edge process did not send its metrics")
            return []

    async def _request_metrics(self) -> list[Family]:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        self._requests += 1
        process.stdin.write(b"?")
        while line := await process.stdout.readline():
            answer = json.loads(line)
            # The answer to an earlier request may come late.
            if answer["request"] == self._requests:
                return [
                    Family(name, kind, description, [Sample(*sample) for sample in samples])
                    for name, kind, description, samples in answer["families"]
                ]
        return []

    async def _run(self) -> tuple[int, CommandFailed | None]:
        """Runs a process to its end; returns its exit code, and its failure where it reported one."""
        # In a session of its own a terminal's interrupt reaches the parent only, which stops each process once.
        process = self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "deploy.serve.edge_worker"),
            stdin=PIPE,
            stdout=PIPE,
            limit=_METRICS_BYTES,
            start_new_session=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(ConnectionError):
            process.stdin.write(pickle.dumps(self._settings))
            await process.stdin.drain()
        line = await process.stdout.readline()
        record: dict[str, str] = json.loads(line) if line else {}
        failure = CommandFailed(record["message"], code=record["code"]) if "message" in record else None
        if "base_address" in record and not self.ready.done():
            self.ready.set_result(record["base_address"])
        self._requests, self._serves = 0, "base_address" in record
        code = await process.wait()
        self._serves = False
        return code, failure


@contextmanager
def _reserved(address: Address) -> Iterator[Address]:
    """Reserves an address for processes that share it, with a free port in place of port 0.

    Raises:
        CommandFailed: it cannot be bound, or another process listens there, even one that would share the port.
    """
    try:
        family, kind, _, _, socket_address = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind) as exclusive, socket.socket(family, kind) as shared:
            for each, option in ((exclusive, socket.SO_REUSEADDR), (shared, socket.SO_REUSEPORT)):
                each.setsockopt(socket.SOL_SOCKET, option, 1)
                if family == socket.AF_INET6:
                    each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            exclusive.bind(socket_address)
            port = exclusive.getsockname()[1]
            exclusive.close()
            shared.bind((socket_address[0], port, *socket_address[2:]))
            yield Address(address.host, port)
    except OSError as error:
        raise bind_failure(error, address) from None
