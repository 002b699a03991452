"""Starts and ends the processes of steps in the selected layer."""

import asyncio
import contextlib
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor

import workflow_api_agent
from backend.confined import restrictions
from backend.confined.spawner import Spawner
from backend.sandbox.inside import (
    agent_code,
    answers,
    channel,
    context,
    events,
    forks,
    isolation,
    library,
    nesting,
    outputs,
    plain_json,
    protocol,
    runner,
    template,
)
from backend.sandbox.launched import spawn
from backend.sandbox.layer import Layer, Readable
from backend.sandbox.limits import Limits
from backend.sandbox.pool import REFILL_SECONDS, WarmPool
from backend.sandbox.process import StepProcess
from backend.sandbox.program import compiled
from backend.sandbox.templates import Templates
from backend.sandbox.watch import LimitWatch

REAPER_THREADS = 8
KILL_SECONDS = 2.0
# Started when needed; one for every step that may run at once.
READER_THREADS = 256

_RUNNER_PARTS = (protocol, plain_json, nesting, channel, events, context, outputs, agent_code, library)
_LIBRARY = (workflow_api_agent, workflow_api_agent.context, workflow_api_agent.testing)


class Sandbox:
    """Starts and ends the processes of steps in one layer, and keeps a few started in advance.

    Created by `choose_sandbox`; used from one event loop at a time, and closed when no step runs any more.
    """

    def __init__(self, layer: Layer, *, warm: int) -> None:
        self.layer = layer
        self._spawner = Spawner("step-spawner")
        self._reapers = ThreadPoolExecutor(REAPER_THREADS, thread_name_prefix="step-reaper")
        self._readers = ThreadPoolExecutor(READER_THREADS, thread_name_prefix="step-readable")
        self._runner_fd = compiled(runner, *_RUNNER_PARTS, library=_LIBRARY)
        parts = (*_RUNNER_PARTS, restrictions, isolation, runner, forks, answers)
        self._template_fd = compiled(template, *parts, library=_LIBRARY)
        self._pool = WarmPool(self._refill, self._discard, warm)
        self._watch = LimitWatch()
        self._templates = Templates(layer, self._template_fd, self._watch, self._spawner, self._reapers)
        self._lock = threading.Lock()
        self._open: set[StepProcess] = set()

    def prepare(self, limits: Limits) -> None:
        """Starts sandboxes in advance for an environment that will be used soon."""
        self._pool.fill(limits)

    async def start(self, limits: Limits, readable: Readable) -> StepProcess:
        """Returns a process that waits for its request; the caller must `end` it.

        It is forked, or started anew while there is no template, or if the step reads folders of the host.

        Raises:
            OSError: the machine cannot start a process.
        """
        warm = None
        if not readable:
            warm = self._pool.take(limits)
            asyncio.get_running_loop().call_later(REFILL_SECONDS, self._pool.fill, limits)
        process = warm or await self._start_cold(limits, readable)
        self._watch.add(process, limits)
        return process

    async def _start_cold(self, limits: Limits, readable: Readable) -> StepProcess:
        if readable:
            # Not on the spawner's thread, which starts all interpreters.
            readable = await asyncio.wrap_future(self._readers.submit(self.layer.make_readable, readable))
        else:
            forked = self._templates.forked(limits)
            if forked is not None:
                with contextlib.suppress(OSError):
                    return await self._opened(forked)
        return await self._opened(self._spawner.submit(lambda: self._spawn(limits, readable)))

    async def _opened(self, starting: Future[StepProcess]) -> StepProcess:
        try:
            process = await asyncio.wrap_future(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(self._discard_late)
            raise
        self._add(process)
        return process

    async def end(self, process: StepProcess) -> None:
        """Kills and reaps all processes of the step; a cancellation meanwhile takes effect after that."""
        self._watch.remove(process)
        ending = asyncio.ensure_future(self._ended(process))
        cancelled: asyncio.CancelledError | None = None
        while not ending.done():
            try:
                await asyncio.shield(ending)
            except asyncio.CancelledError as error:
                cancelled = error
        ending.result()
        if cancelled is not None:
            raise cancelled

    async def _ended(self, process: StepProcess) -> None:
        """Ends a process: on a thread only where its death cannot be waited for here, or takes long."""
        if process.death is not None:
            process.kill()
            if await _readable(process.death, KILL_SECONDS):
                process.end()
                return
        await asyncio.wrap_future(self._reapers.submit(process.end))

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
        self._templates.close()
        self._reapers.shutdown(wait=True)
        for process in list(self._open):
            self._watch.remove(process)
            process.end()
            self.release(process)
        self._watch.close()
        os.close(self._runner_fd)
        os.close(self._template_fd)

    def _spawn(self, limits: Limits, readable: Readable) -> StepProcess:
        process = spawn(self.layer, limits, readable, self._runner_fd)
        if limits.preloads:
            self._watch.add(process, limits)
        return process

    def _add(self, process: StepProcess) -> None:
        with self._lock:
            self._open.add(process)

    def _refill(self, limits: Limits) -> None:
        if self._templates.await_first(limits, lambda: self._refill(limits)):
            return
        starting = self._templates.forked(limits)
        if starting is None:
            starting = self._spawner.submit(lambda: self._spawn(limits, Readable()), urgent=False)

        def started(done: Future[StepProcess]) -> None:
            process = None if done.cancelled() or done.exception() is not None else done.result()
            if process is not None:
                self._add(process)
            self._pool.put(limits, process)

        starting.add_done_callback(started)

    def _discard(self, process: StepProcess) -> None:
        def end() -> None:
            self._watch.remove(process)
            process.end()
            self.release(process)

        self._reapers.submit(end)

    def _discard_late(self, starting: Future[StepProcess]) -> None:
        if not starting.cancelled() and starting.exception() is None:
            self._add(starting.result())
            self._discard(starting.result())


async def _readable(fd: int, seconds: float) -> bool:
    """Waits until a descriptor is readable; False where it is not in time."""
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[bool] = loop.create_future()

    def settle(readable: bool) -> None:
        if not waiter.done():
            waiter.set_result(readable)

    loop.add_reader(fd, settle, True)
    timer = loop.call_later(seconds, settle, False)
    try:
        return await waiter
    finally:
        timer.cancel()
        loop.remove_reader(fd)
