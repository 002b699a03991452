"""One of several edge processes, and those that replace it: its start, its metrics and its end."""

import asyncio
import json
import logging
import os
import pickle
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from deploy.config.settings import Settings
from deploy.failures import CommandError
from edge.shared_memory.share import ShareFiles
from telemetry import Family, Sample

METRICS_SECONDS: Final = 2.0
"""How long a process may take to send its metrics."""

_METRICS_BYTES: Final = 16 * 1_048_576
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0
# A process that lived longer than this did not fail during its start.
_HEALTHY_SECONDS: Final = 10.0
# How long an edge may take to stop, beyond the time for calls under way.
_STOP_SECONDS: Final = 15.0

Connect = Callable[[], Awaitable[socket.socket]]

_LOG = logging.getLogger(__name__)


class EdgeProcess:
    """One of the processes, and those that replace it."""

    def __init__(
        self, settings: Settings, files: ShareFiles, on_end: Callable[[], None], connect: Connect | None = None
    ) -> None:
        """`on_end` is called whenever a process has ended, before another one is started.

        `connect` returns a new socket that leads to the backend; without it the settings say where that is.
        """
        self._connect = connect
        self._settings = settings
        self._files = files
        self._on_end = on_end
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
            try:
                code, failure = await self._run()
            except OSError as error:
                # Most likely this process has as many files open as it may.
                code, failure = 1, CommandError(f"An edge process cannot be started: {os.strerror(error.errno or 0)}.")
            self._on_end()
            if not self.ready.done():
                self.ready.set_exception(
                    failure or CommandError(f"An edge process ended with {code} before it was ready.")
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
            async with asyncio.timeout(METRICS_SECONDS), self._requesting:
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

    async def _run(self) -> tuple[int, CommandError | None]:
        """Runs a process to its end; returns its exit code, and its failure where it reported one."""
        backend = None if self._connect is None else await self._connect()
        to_backend = () if backend is None else (backend.fileno(),)
        try:
            # In a session of its own a terminal's interrupt reaches the parent only, which stops each process once.
            process = self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "deploy.serve.edge_worker"),
                stdin=PIPE,
                stdout=PIPE,
                limit=_METRICS_BYTES,
                start_new_session=True,
                pass_fds=(*self._files.numbers, *to_backend),
            )
        finally:
            if backend is not None:
                # Only then does the end of the process end its calls.
                backend.close()
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(ConnectionError):
            process.stdin.write(pickle.dumps((self._settings, self._files, *to_backend)))
            await process.stdin.drain()
        line = await process.stdout.readline()
        record: dict[str, str] = json.loads(line) if line else {}
        failure = CommandError(record["message"], code=record["code"]) if "message" in record else None
        if "base_address" in record and not self.ready.done():
            self.ready.set_result(record["base_address"])
        self._requests, self._serves = 0, "base_address" in record
        code = await process.wait()
        self._serves = False
        return code, failure
