"""Starts steps with an interpreter of their own, and ends them."""

import contextlib
import json
import os
import re
import select
import signal
import socket
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from backend.isolation.sandbox import interpreter
from backend.isolation.sandbox.layer import Launch, Layer, Readable
from backend.isolation.sandbox.limits import Limits
from backend.isolation.sandbox.process import StepLog, StepProcess

REAP_SECONDS = 5.0
# A guard exits only when all processes of the step are dead, which takes long while these use all processors. It must
# not be killed before, for nothing else would end them.
GUARD_SECONDS = 60.0
_MOST_PIDFDS = 256


class LaunchedProcess(StepProcess):
    """A step whose interpreter the layer has started for it alone."""

    def __init__(
        self,
        popen: subprocess.Popen[bytes],
        layer: Layer,
        launch: Launch,
        channel: socket.socket,
        log: StepLog,
        link: socket.socket,
    ) -> None:
        super().__init__(launch, channel, log, link)
        self._popen = popen
        self._guarded = layer.guarded
        self.wrapped = layer.guarded is not None
        self._launch = launch
        self._namespace: int | None = None
        """A pidfd of the first process of the step's process namespace, whose end ends all others in it."""
        self._descendants: list[int] = []
        """Pidfds of killed processes, where no namespace and no guard ends them together."""

    @property
    def pid(self) -> int:
        """Id of the process that was started, which is the layer's if the layer has a process."""
        return self._popen.pid

    @property
    def alive(self) -> bool:
        """Returns whether the process that was started still runs."""
        return self._popen.poll() is None

    def exit_status(self, wait_seconds: float) -> int | None:
        """Returns the exit status, negative for a signal; None if it still runs after that time. Does not reap it."""
        deadline = time.monotonic() + wait_seconds
        while (ended := os.waitid(os.P_PID, self._popen.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is None:
            if time.monotonic() > deadline:
                return None
            time.sleep(0.005)
        if ended.si_code != os.CLD_EXITED:
            return -ended.si_status
        # bubblewrap encodes signals as shells do.
        return 128 - ended.si_status if ended.si_status > 128 else ended.si_status

    def kill(self) -> None:
        """Kills all processes of the step, without waiting for their end."""
        self.confirm()
        if self._namespace is not None:
            # The layer's parent process then reaps it, and exits.
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._namespace, signal.SIGKILL)
        elif self._guarded == "guard":
            with contextlib.suppress(OSError):
                self._link.send(b"e")
        elif self._popen.returncode is None:
            self._descendants += _kill_family(self._popen.pid)

    def end(self) -> None:
        """Kills and reaps all processes of the step, and removes its files from the host."""
        self.kill()
        if self._namespace is not None:
            _wait_for_end([self._namespace])
        try:
            self._popen.wait(GUARD_SECONDS if self._guarded == "guard" else REAP_SECONDS)
        except subprocess.TimeoutExpired:
            self._descendants += _kill_family(self._popen.pid)
            self._popen.wait(REAP_SECONDS)
        _wait_for_end(self._descendants)
        self._launch.discard()

    def close(self) -> None:
        """Closes the worker's ends of socket, log, link and namespace."""
        super().close()
        if self._namespace is not None:
            os.close(self._namespace)
        for descendant in self._descendants:
            os.close(descendant)
        self._descendants.clear()

    def confirm(self) -> None:
        """Opens the first process of the namespace, once the layer has reported its id."""
        if self._namespace is not None or self._guarded != "namespace":
            return
        try:
            report = self._link.recv(4096)
        except BlockingIOError:
            return
        found = re.search(rb'"child-pid": (\d+)', report)
        if found is None:
            return
        pid = int(found[1])
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            fd = os.pidfd_open(pid)
            try:
                # While its parent is the process started here, which is not reaped, the id cannot be reused.
                if _parent(pid) == self._popen.pid:
                    self._namespace = fd
                    self.root = Path(f"/proc/{pid}/root")
            finally:
                if self._namespace is None:
                    os.close(fd)


def spawn(layer: Layer, limits: Limits, readable: Readable, runner_fd: int) -> LaunchedProcess:
    """Starts a runner in a sandbox of these limits; to be called on the spawner's thread only.

    Raises:
        OSError: the machine cannot start a process.
    """
    with contextlib.ExitStack() as undo:
        worker_end, step_end = socket.socketpair()
        undo.callback(worker_end.close)
        link, their_link = socket.socketpair()
        undo.callback(link.close)
        log_read, log_write = os.pipe()
        undo.callback(os.close, log_read)
        with step_end, their_link, contextlib.ExitStack() as handed_over:
            handed_over.callback(os.close, log_write)
            # Opened again: steps that shared an offset could see and change it for each other.
            program = os.open(f"/proc/self/fd/{runner_fd}", os.O_RDONLY | os.O_CLOEXEC)
            handed_over.callback(os.close, program)
            inherited = (step_end.fileno(), program)
            runner = [f"/proc/self/fd/{program}", str(step_end.fileno()), *_packages(layer, limits)]
            command = [*layer.command_of(interpreter.executable(), limits), *interpreter.FLAGS, *runner]
            launch = layer.launch(command, limits, readable, inherited, their_link.fileno())
            undo.callback(launch.discard)
            handed_over.callback(launch.started)
            popen = subprocess.Popen(
                launch.argv,
                env=launch.environment,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log_write,
                stderr=log_write,
                pass_fds=(*inherited, *launch.fds, *([their_link.fileno()] if layer.guarded else [])),
                start_new_session=True,
            )
        undo.pop_all()
    worker_end.setblocking(False)
    link.setblocking(False)
    return LaunchedProcess(popen, layer, launch, worker_end, StepLog(log_read), link)


def _packages(layer: Layer, limits: Limits) -> list[str]:
    """Returns the runner's argument for packages, as JSON, or none."""
    if limits.packages is None:
        return []
    options = {
        "path": layer.place_of(limits.packages),
        "preload": limits.packages.preload,
        "memory_bytes": limits.memory_bytes,
    }
    return [json.dumps(options)]


def _wait_for_end(pidfds: Iterable[int]) -> None:
    """Waits until processes have ended, for a bounded time in all."""
    deadline = time.monotonic() + REAP_SECONDS
    for pidfd in pidfds:
        waiting = select.poll()
        waiting.register(pidfd, select.POLLIN)
        waiting.poll(max(0.0, deadline - time.monotonic()) * 1000)


def _kill_family(pid: int) -> list[int]:
    """Kills a process without a namespace, with its session and all descendants that can be found.

    Returns pidfds of descendants, as many as a step may have processes; the caller closes them.
    """
    family = [pid]
    children = defaultdict(list)
    for child, parent in _parents().items():
        children[parent].append(child)
    for member in family:
        family += children[member]
    pidfds = []
    for member in family[1 : _MOST_PIDFDS + 1]:
        with contextlib.suppress(OSError):
            pidfds.append(os.pidfd_open(member))
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    for member in family[1:]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(member, signal.SIGKILL)
    return pidfds


def _parents() -> dict[int, int]:
    """Returns the parent of every process, by id."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                parents[int(entry.name)] = _parent(int(entry.name))
    return parents


def _parent(pid: int) -> int:
    # The name of the command is in parentheses and may hold any character.
    after_name = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2]
    return int(after_name.split()[1])
