"""Starts and ends the processes of steps, in the layer that is selected for this machine."""

import asyncio
import contextlib
import os
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import workflow_api_agent
from backend.isolation.confined import restrictions
from backend.isolation.confined.process import Spawner
from backend.isolation.sandbox import interpreter
from backend.isolation.sandbox.bubblewrap import Bubblewrap
from backend.isolation.sandbox.inside import (
    agent_code,
    channel,
    context,
    isolation,
    outputs,
    plain_json,
    runner,
    template,
)
from backend.isolation.sandbox.interpreter import compiled
from backend.isolation.sandbox.landlock import Landlock
from backend.isolation.sandbox.launched import spawn
from backend.isolation.sandbox.layer import (
    Launch,
    Layer,
    Readable,
    SandboxUnavailableError,
    remove_leftovers,
    scratch_layout,
)
from backend.isolation.sandbox.limits import Limits, StepRoot
from backend.isolation.sandbox.pool import REFILL_SECONDS, Templates, WarmPool
from backend.isolation.sandbox.process import StepProcess
from backend.isolation.sandbox.root_links import variables_of
from backend.isolation.sandbox.watch import LimitWatch

REAPER_THREADS = 8
KILL_SECONDS = 2.0
# Threads are started when needed, at most one for each step that may run at once.
READER_THREADS = 256

_RUNNER_PARTS = (plain_json, channel, context, outputs, agent_code)
_LIBRARY = (workflow_api_agent, workflow_api_agent.context, workflow_api_agent.testing)


class Sandbox:
    """Starts and ends the processes of steps in one layer, and keeps a few started in advance.

    Created by `choose_sandbox`; used from one event loop at a time, and closed when no step runs any more. `refused`
    says why stronger layers do not work here.
    """

    def __init__(self, layer: Layer, *, warm: int, refused: str = "") -> None:
        self.layer = layer
        self.refused = refused
        self._spawner = Spawner("step-spawner")
        self._reapers = ThreadPoolExecutor(REAPER_THREADS, thread_name_prefix="step-reaper")
        self._readers = ThreadPoolExecutor(READER_THREADS, thread_name_prefix="step-readable")
        self._runner_fd = compiled(runner, *_RUNNER_PARTS, library=_LIBRARY)
        parts = (*_RUNNER_PARTS, restrictions, isolation, runner)
        self._template_fd = compiled(template, *parts, library=_LIBRARY)
        self.pool = WarmPool(self._refill, self._discard, warm)
        """The processes that were started in advance."""
        self._watch = LimitWatch()
        self.templates = Templates(layer, self._template_fd, self._watch, self._spawner, self._reapers)
        """The templates that steps are forked from."""
        self._lock = threading.Lock()
        self._open: set[StepProcess] = set()

    @property
    def open_processes(self) -> frozenset[StepProcess]:
        """The processes that are not released yet, whether they run a step or wait for one."""
        with self._lock:
            return frozenset(self._open)

    def prepare(self, limits: Limits) -> None:
        """Starts sandboxes in advance for an environment that will be used soon."""
        self.pool.fill(limits)

    async def start(self, limits: Limits, readable: Readable) -> StepProcess:
        """Returns a process that waits for its request; the caller must `end` it.

        It is forked, or started anew while there is no template, or if the step reads folders of the host.

        Raises:
            OSError: the machine cannot start a process.
        """
        warm = None
        if not readable:
            warm = self.pool.take(limits)
            asyncio.get_running_loop().call_later(REFILL_SECONDS, self.pool.fill, limits)
        process = warm or await self._start_cold(limits, readable)
        self._watch.add(process, limits)
        return process

    async def _start_cold(self, limits: Limits, readable: Readable) -> StepProcess:
        if readable:
            # `make_readable` is slow, so it does not run on the spawner's thread, which starts all interpreters.
            readable = await asyncio.wrap_future(self._readers.submit(self.layer.make_readable, readable))
        else:
            forked = self.templates.forked(limits)
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
        """Ends a process; on a thread only if its death cannot be awaited here, or takes long."""
        if process.exit_fd is not None:
            process.kill()
            if await _readable(process.exit_fd, KILL_SECONDS):
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
        self.pool.close()
        self._readers.shutdown(wait=True)
        self._spawner.close()
        self.templates.close()
        self._reapers.shutdown(wait=True)
        for process in self.open_processes:
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
        if self.templates.await_first(limits, lambda: self._refill(limits)):
            return
        starting = self.templates.forked(limits)
        if starting is None:
            starting = self._spawner.submit(lambda: self._spawn(limits, Readable()), urgent=False)

        def started(done: Future[StepProcess]) -> None:
            process = None if done.cancelled() or done.exception() is not None else done.result()
            if process is not None:
                self._add(process)
            self.pool.put(limits, process)

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
    """Waits until a descriptor is readable; returns False if `seconds` pass first."""
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


class Unconfined(Layer):
    """Layer of the setting `none`: it limits memory, processes and workspace, and isolates nothing."""

    name = "none"
    guarded = None

    def __init__(self) -> None:
        setpriv = shutil.which("setpriv")
        self._wrapper = [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []

    def check_root(self, root: StepRoot) -> None:
        """Checks that the machine's C library can run the root's programs."""
        variables_of(root)

    def launch(
        self,
        command: Sequence[str],
        limits: Limits,
        readable: Readable,
        fds: Sequence[int],  # noqa: ARG002 - the command itself inherits them
        link: int,  # noqa: ARG002 - nothing outlives the command to listen
    ) -> Launch:
        """Wraps `command` to run in a folder of its own, and to end with the worker if `setpriv` is installed."""
        scratch, layout = scratch_layout(
            readable,
            packages=None if limits.packages is None else self.place_of(limits.packages),
            root=None if limits.root is None else variables_of(limits.root),
        )
        return Launch(
            argv=[*self._wrapper, *command],
            environment=layout.environment(),
            layout=layout,
            scratch=scratch,
            view=readable.view,
        )

    def check(self) -> None:
        """Checks that there is an interpreter."""
        interpreter.executable()


LAYERS: Mapping[str, Callable[[], Layer]] = {"bwrap": Bubblewrap, "landlock": Landlock, "none": Unconfined}
AUTOMATIC = ("bwrap", "landlock")
"""Layers that `auto` tries, in this order; `none` must be chosen by an operator."""
WARM = 2


def choose_sandbox(setting: str, *, warm: int = WARM) -> Sandbox:
    """Returns the sandbox for the setting `auto`, `bwrap`, `landlock` or `none`, after a check that it works.

    `warm` sandboxes are kept started for each of the environments used last.

    Raises:
        SandboxUnavailableError: the layer, or for `auto` every isolating one, does not work; then no step may run.
    """
    if setting != "auto" and setting not in LAYERS:
        raise SandboxUnavailableError(f"runtime.sandbox must be one of auto, {', '.join(LAYERS)}, not {setting!r}")
    reasons = []
    for name in AUTOMATIC if setting == "auto" else (setting,):
        try:
            layer = LAYERS[name]()
            layer.check()
        except SandboxUnavailableError as error:
            reasons.append(str(error))
        else:
            remove_leftovers()
            return Sandbox(layer, warm=warm, refused="; ".join(reasons))
    raise SandboxUnavailableError(
        f"steps cannot be isolated on this machine: {'; '.join(reasons)}. "
        "Install bubblewrap and allow user namespaces, switch on Landlock in the kernel, or set "
        'runtime.sandbox to "none" and isolate no step at all'
    )
