"""Starts and ends the processes of steps in the selected layer."""

import asyncio
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor

import workflow_api_agent
from backend.confined.spawner import Spawner
from backend.sandbox.inside import (
    agent_code,
    channel,
    context,
    events,
    library,
    nesting,
    outputs,
    plain_json,
    protocol,
    runner,
)
from backend.sandbox.layer import Layer, Readable
from backend.sandbox.limits import Limits
from backend.sandbox.pool import WarmPool
from backend.sandbox.process import StepProcess, spawn
from backend.sandbox.program import compiled
from backend.sandbox.watch import LimitWatch

REAPER_THREADS = 8
# Started when needed; one for every step that may run at once.
READER_THREADS = 256


class Sandbox:
    """Starts and ends the processes of steps in one layer, and keeps a few started in advance.

    Created by `choose_sandbox`; used from one event loop at a time, and closed when no step runs any more.
    """

    def __init__(self, layer: Layer, *, warm: int) -> None:
        self.layer = layer
        self._spawner = Spawner("step-spawner")
        self._reapers = ThreadPoolExecutor(REAPER_THREADS, thread_name_prefix="step-reaper")
        self._readers = ThreadPoolExecutor(READER_THREADS, thread_name_prefix="step-readable")
        self._runner_fd = compiled(
            runner,
            *(protocol, plain_json, nesting, channel, events, context, outputs, agent_code, library),
            library=(workflow_api_agent, workflow_api_agent.context, workflow_api_agent.testing),
        )
        self._pool = WarmPool(self._refill, self._discard, warm)
        self._watch = LimitWatch()
        self._lock = threading.Lock()
        self._open: set[StepProcess] = set()

    def prepare(self, limits: Limits) -> None:
        """Starts sandboxes in advance for an environment that will be used soon."""
        self._pool.fill(limits)

    async def start(self, limits: Limits, readable: Readable) -> StepProcess:
        """Returns a process that waits for its request; the caller must `end` it.

        It is started anew if none is waiting, or if the step reads folders of the host.

        Raises:
            OSError: the machine cannot start a process.
        """
        warm = None if readable else self._pool.take(limits)
        process = warm or await self._start_cold(limits, readable)
        self._watch.add(process, limits)
        return process

    async def _start_cold(self, limits: Limits, readable: Readable) -> StepProcess:
        if readable:
            # Not on the spawner's thread, which starts all steps.
            await asyncio.wrap_future(self._readers.submit(self.layer.make_readable, readable))
        starting = self._spawner.submit(lambda: self._spawn(limits, readable))
        try:
            return await asyncio.wrap_future(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(self._discard_late)
            raise

    async def end(self, process: StepProcess) -> None:
        """Kills and reaps all processes of the step; a cancellation meanwhile takes effect after that."""
        self._watch.remove(process)
        ending = asyncio.wrap_future(self._reapers.submit(process.end))
        cancelled: asyncio.CancelledError | None = None
        while not ending.done():
            try:
                await asyncio.shield(ending)
            except asyncio.CancelledError as error:
                cancelled = error
        ending.result()
        if cancelled is not None:
            raise cancelled

    def release(self, process: StepProcess) -> None:
        """Closes the worker's descriptors of an ended process."""
        with self._lock:
            self._open.discard(process)
        process.close()

    def close(self) -> None:
        """Ends all processes, running or waiting, and the threads."""
        self._pool.close()
        self._readers.shutdown(wait=True)
        self._spawner.close()
        self._reapers.shutdown(wait=True)
        for process in list(self._open):
            self._watch.remove(process)
            process.end()
            self.release(process)
        self._watch.close()
        os.close(self._runner_fd)

    def _spawn(self, limits: Limits, readable: Readable) -> StepProcess:
        process = spawn(self.layer, limits, readable, self._runner_fd)
        with self._lock:
            self._open.add(process)
        if limits.preloads:
            self._watch.add(process, limits)
        return process

    def _refill(self, limits: Limits) -> None:
        def start() -> None:
            process = None
            try:
                process = self._spawn(limits, Readable())
            finally:
                self._pool.put(limits, process)

        self._spawner.submit(start, urgent=False)

    def _discard(self, process: StepProcess) -> None:
        def end() -> None:
            self._watch.remove(process)
            process.end()
            self.release(process)

        self._reapers.submit(end)

    def _discard_late(self, starting: Future[StepProcess]) -> None:
        if not starting.cancelled() and starting.exception() is None:
            self._discard(starting.result())
