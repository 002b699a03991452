"""Several edge processes on one address: a small parent that starts them, and again whenever one ends.

The kernel spreads new connections over them. Each is an edge with an event loop and a channel of its own; it ends in
an orderly way on SIGTERM, and also when its parent is gone: its standard input, which the parent holds open, then ends.
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

from deploy.cli.failures import CommandFailed
from deploy.config.addresses import Address
from deploy.config.settings import Settings
from deploy.serve.lifecycle import cannot_listen, run_until_stopped
from deploy.serve.metrics import Metrics, Source
from telemetry import Family, Sample

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0
# A process that lived so long did not fail from its start.
_SOUND_SECONDS: Final = 10.0
# What an edge may take for its end beside the calls under way.
_END_SECONDS: Final = 15.0

# How long a process may take to tell its metrics, and how much it may tell.
_METRICS_SECONDS: Final = 2.0
_METRICS_BYTES: Final = 16 * 1_048_576

_LOG = logging.getLogger(__name__)


def serve_processes(settings: Settings, on_ready: Callable[[str], None], metrics: Metrics) -> None:
    """Serve until SIGTERM or SIGINT with `edge.processes` processes; `on_ready` gets the base address.

    Raises:
        CommandFailed: the address cannot be bound, or a process cannot start; the message says why.
    """

    async def serve(stop: asyncio.Event) -> None:
        with _held(settings.edge.http) as http:
            told = replace(settings, edge=replace(settings.edge, http=http))
            processes = [_EdgeProcess(told) for _ in range(settings.edge.processes)]
            keeping = [asyncio.create_task(process.keep()) for process in processes]
            stopping = asyncio.create_task(stop.wait())
            started = asyncio.gather(*(process.ready for process in processes))
            under_way: list[asyncio.Future[Any]] = [*keeping, stopping, started]
            with metrics.told_by(_told_by_all(processes)):
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


def _told_by_all(processes: Sequence["_EdgeProcess"]) -> Source:
    """Return what asks every process, from another thread than that of the running loop.

    Each has series of its own, by its place among them: one that is replaced begins at 0, and a sum over all of them
    would then go down without anything having been forgotten.
    """
    loop = asyncio.get_running_loop()

    async def ask() -> list[list[Family]]:
        return await asyncio.gather(*(process.measured() for process in processes))

    def told() -> Iterator[Family]:
        answers = asyncio.run_coroutine_threadsafe(ask(), loop).result(2 * _METRICS_SECONDS)
        by_name: dict[str, Family] = {}
        for place, families in enumerate(answers):
            for family in families:
                own = [sample._replace(labels={**sample.labels, "process": str(place)}) for sample in family.samples]
                before = by_name.get(family.name)
                by_name[family.name] = family._replace(samples=[*(before.samples if before else ()), *own])
        return iter(by_name.values())

    return told


class _EdgeProcess:
    """One of the processes, and its successors."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._asked = 0
        self._asking = asyncio.Lock()
        self._serves = False
        self._process: Process | None = None
        self.ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """The base address, once the first one serves; or why it cannot."""

    async def keep(self) -> None:
        """Start a process, and another whenever it ends."""
        loop = asyncio.get_running_loop()
        pause = _FIRST_PAUSE
        while True:
            began = loop.time()
            code, why = await self._run()
            if not self.ready.done():
                self.ready.set_exception(why or CommandFailed(f"An edge process ended with {code} before it served."))
                return
            pause = _FIRST_PAUSE if loop.time() - began > _SOUND_SECONDS else min(2 * pause, _LONGEST_PAUSE)
            _LOG.warning("an edge process ended (%s), another is started", why.message if why else f"code {code}")
            await asyncio.sleep(pause)

    async def stop(self) -> None:
        """Let the process end, and end it where it takes too long."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(self._settings.edge.drain_seconds + _END_SECONDS):
                await process.wait()
        except TimeoutError:
            _LOG.warning("an edge process does not end, it is killed")
            process.kill()
            await process.wait()

    async def measured(self) -> list[Family]:
        """Return what the process tells of itself; nothing where it does not in time, or does not serve yet."""
        try:
            async with asyncio.timeout(_METRICS_SECONDS), self._asking:
                return await self._ask() if self._serves else []
        except (TimeoutError, OSError, ValueError):
            _LOG.warning("an edge process did not tell its metrics")
            return []

    async def _ask(self) -> list[Family]:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        self._asked += 1
        process.stdin.write(b"?")
        while line := await process.stdout.readline():
            answer = json.loads(line)
            # An earlier question may be answered late.
            if answer["question"] == self._asked:
                return [
                    Family(name, kind, meaning, [Sample(*sample) for sample in samples])
                    for name, kind, meaning, samples in answer["families"]
                ]
        return []

    async def _run(self) -> tuple[int, CommandFailed | None]:
        """Start a process and wait for its end: its exit code, and why it could not serve where it says so."""
        # In a session of its own the interrupt of a terminal reaches the parent only, which passes it on once.
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
        said = await process.stdout.readline()
        record: dict[str, str] = json.loads(said) if said else {}
        why = CommandFailed(record["message"], code=record["code"]) if "message" in record else None
        if "base_address" in record and not self.ready.done():
            self.ready.set_result(record["base_address"])
        self._asked, self._serves = 0, "base_address" in record
        code = await process.wait()
        self._serves = False
        return code, why


@contextmanager
def _held(address: Address) -> Iterator[Address]:
    """Keep an address for processes that share it, with a free port in place of port 0.

    Raises:
        CommandFailed: it cannot be bound, or somebody else listens there, who might share it unasked.
    """
    try:
        family, kind, _, _, place = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind) as alone, socket.socket(family, kind) as held:
            for each, option in ((alone, socket.SO_REUSEADDR), (held, socket.SO_REUSEPORT)):
                each.setsockopt(socket.SOL_SOCKET, option, 1)
                if family == socket.AF_INET6:
                    each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            alone.bind(place)
            port = alone.getsockname()[1]
            alone.close()
            held.bind((place[0], port, *place[2:]))
            yield Address(address.host, port)
    except OSError as error:
        raise cannot_listen(error, address) from None
