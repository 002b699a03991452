import asyncio
import fcntl
import importlib.util
import marshal
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from backend.runtime.sandbox import runner
from backend.runtime.sandbox.layer import Layer
from backend.runtime.sandbox.limits import Limits
from backend.runtime.sandbox.pool import WarmPool
from backend.runtime.sandbox.process import StepProcess, spawn
from backend.runtime.sandbox.spawner import Spawner

REAPER_THREADS = 8


class Sandbox:
    """Starts and ends the processes of steps in one layer, with a few kept warm.

    Made by `choose_sandbox`. Used from one event loop at a time; `close` when no step runs any more.
    """

    def __init__(self, layer: Layer, *, warm: int) -> None:
        self.layer = layer
        self._spawner = Spawner()
        self._reapers = ThreadPoolExecutor(REAPER_THREADS, thread_name_prefix="step-reaper")
        self._runner_fd = _compiled_runner(Path(runner.__file__))
        self._pool = WarmPool(self._refill, self._discard, warm)
        self._lock = threading.Lock()
        self._open: set[StepProcess] = set()

    def prepare(self, limits: Limits) -> None:
        """Start warm sandboxes for an environment that is about to be used."""
        process = self._pool.take(limits)
        if process is not None:
            self._discard(process)

    async def start(self, limits: Limits, inputs: Path | None) -> StepProcess:
        """A process that waits for its request: a warm one, or a new one where there is none or `inputs` are bound.

        Raises OSError when the machine cannot start one. The caller must `end` it.
        """
        warm = self._pool.take(limits) if inputs is None else None
        if warm is not None:
            return warm
        starting = self._spawner.submit(lambda: self._spawn(limits, inputs))
        try:
            return await asyncio.wrap_future(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(self._discard_late)
            raise

    async def end(self, process: StepProcess) -> None:
        """Kill and reap the step with all that it started; a cancellation meanwhile waits until that is done."""
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
        """Close the worker's ends of an ended process."""
        with self._lock:
            self._open.discard(process)
        process.close()

    def close(self) -> None:
        """End whatever still runs or waits, and the threads that served it."""
        self._pool.close()
        self._spawner.close()
        self._reapers.shutdown(wait=True)
        for process in list(self._open):
            process.end()
            self.release(process)
        os.close(self._runner_fd)

    def _spawn(self, limits: Limits, inputs: Path | None) -> StepProcess:
        process = spawn(self.layer, limits, inputs, self._runner_fd)
        with self._lock:
            self._open.add(process)
        return process

    def _refill(self, limits: Limits) -> None:
        def start() -> None:
            process = None
            try:
                process = self._spawn(limits, None)
            finally:
                self._pool.put(limits, process)

        self._spawner.submit(start, urgent=False)

    def _discard(self, process: StepProcess) -> None:
        def end() -> None:
            process.end()
            self.release(process)

        self._reapers.submit(end)

    def _discard_late(self, starting: Future[StepProcess]) -> None:
        if not starting.cancelled() and starting.exception() is None:
            self._discard(starting.result())


def _compiled_runner(source: Path) -> int:
    """The runner's byte code in a sealed memory file: no step can change what the next one runs."""
    code = compile(source.read_bytes(), "runner.py", "exec", dont_inherit=True, optimize=0)
    fd = os.memfd_create("runner", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with os.fdopen(os.dup(fd), "wb") as file:
        file.write(importlib.util.MAGIC_NUMBER + bytes(12) + marshal.dumps(code))
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
    return fd
