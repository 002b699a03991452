"""Process of a step whose runner was forked from a template."""

import contextlib
import errno
import os
import select
import signal
import socket
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from backend.isolation.sandbox.layer import Launch
from backend.isolation.sandbox.process import StepLog, StepProcess

REAP_SECONDS = 5.0
_MOST_STATUS_BYTES = 64 * 1024
NAMESPACES = ("cgroup", "ipc", "mnt", "pid", "user", "uts")
_ALL_NAMESPACES = (*NAMESPACES, "net")
NO_CAPABILITY = "0" * 16
FILTERED = "2"
_SHORTAGES = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}
"""Errors of the worker itself, which say nothing about a step."""


class NotIsolatedError(OSError):
    """The kernel's record of a step's process shows less isolation than every step must have."""


class TemplateProcess(NamedTuple):
    """The kernel's record of a template, which does not change while it forks; read once, not for each step."""

    pid: int
    filters: int
    namespaces: Mapping[str, str]

    @classmethod
    def of(cls, pid: int) -> "TemplateProcess":
        """Reads the record of process `pid` from /proc; raises OSError or ValueError."""
        # Before Linux 5.9 the kernel does not say how many filters there are.
        filters = int(_status(pid).get("Seccomp_filters", 1))
        return cls(pid, filters, {name: _namespace(pid, name) for name in _ALL_NAMESPACES})


class ForkedProcess(StepProcess):
    """Process of a step in its own process namespace; `first` is a pidfd of that namespace's first process.

    `template` returns the record of a parent by its id, and raises ValueError if the parent is not the template.
    `ended` is called with the id of the first process once it is dead, `on_fault` if the template must fork no more. A
    first process that outlives `end` is passed to `outlived`, which closes its descriptor.
    """

    wrapped = True

    def __init__(
        self,
        first: int,
        launch: Launch,
        channel: socket.socket,
        log: StepLog,
        link: socket.socket,
        *,
        own_network: bool,
        template: Callable[[int], TemplateProcess],
        ended: Callable[[int], None],
        on_fault: Callable[[], None],
        outlived: Callable[[int, int], None],
    ) -> None:
        super().__init__(launch, channel, log, link)
        self._first = first
        self._pid = _pid_of(first)
        self._namespaces = (*NAMESPACES, "net") if own_network else NAMESPACES
        self._template = template
        self._ended = ended
        self._on_fault = on_fault
        self._outlived = outlived
        self._outlives_end = False

    @property
    def pid(self) -> int:
        """Id of the first process of the step's namespace."""
        return self._pid

    @property
    def exit_fd(self) -> int:
        """A pidfd, readable once every process of the step is dead."""
        return self._first

    @property
    def alive(self) -> bool:
        """Returns whether the first process, whose end ends all others of the namespace, still runs."""
        return not dead(self._first)

    def confirm(self) -> None:
        """Compares the kernel's record of the namespace's first process with the isolation that every step must have.

        The runner was forked from it later, and so has no more rights. If anything differs, the template is faulty.

        Raises:
            NotIsolatedError: something differs.
            OSError: it could not be compared, because the step has ended or the worker lacks memory or descriptors.
        """
        try:
            self._check_isolation()
        except (OSError, ValueError, KeyError) as error:
            if isinstance(error, OSError) and error.errno in _SHORTAGES:
                raise
            self._on_fault()
            if not self.alive:
                raise OSError("the step's process ended before it was checked") from error
            raise NotIsolatedError(f"the step's process is not isolated: {error}") from error
        self.root = Path(f"/proc/{self._pid}/root")

    def _check_isolation(self) -> None:
        status = _status(self._pid)
        template = self._template(int(status["PPid"]))
        capabilities = {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}
        own_filters = int(status.get("Seccomp_filters", 2)) > template.filters
        if capabilities != {NO_CAPABILITY} or status["NoNewPrivs"] != "1" or status["Seccomp"] != FILTERED:
            raise ValueError("it has rights")
        # A filter of the process itself, beside the filters that it inherited from the template.
        if not own_filters:
            raise ValueError("it may do what only its template needs")
        workers = _namespaces_of_this_process(os.getpid())
        for name in self._namespaces:
            own = _namespace(self._pid, name)
            if own in {template.namespaces[name], workers[name]}:
                raise ValueError(f"it shares the namespace {own}")
        if not self.alive:
            raise ValueError("it has ended")

    def exit_status(self, wait_seconds: float) -> int | None:
        """Returns the exit status, negative for a signal; None if it still runs after that time."""
        if not _ready(self._link.fileno(), wait_seconds):
            return None
        try:
            return int(self._link.recv(16))
        except ValueError:
            # The first process was killed, and the kernel killed the runner with it.
            return -signal.SIGKILL

    def kill(self) -> None:
        """Kills all processes of the step, without waiting for their end."""
        _kill(self._first)

    def end(self) -> None:
        """Kills all processes of the step; the kernel removes its files with the last of them."""
        if killed(self._first):
            self._ended(self._pid)
        else:
            self._outlives_end = True
            self._on_fault()

    def close(self) -> None:
        """Closes the worker's ends of socket, log, link and namespace."""
        super().close()
        if self._outlives_end:
            self._outlived(self._pid, self._first)
        else:
            os.close(self._first)


def dead(first: int) -> bool:
    """Returns whether a first process, and so its namespace, is dead."""
    return _ready(first, 0)


def killed(first: int) -> bool:
    """Kills all processes of the namespace of a first process; returns whether they are dead within `REAP_SECONDS`."""
    _kill(first)
    return _ready(first, REAP_SECONDS)


def _kill(first: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(first, signal.SIGKILL)


def _ready(fd: int, wait_seconds: float) -> bool:
    waiting = select.poll()
    waiting.register(fd, select.POLLIN)
    return bool(waiting.poll(wait_seconds * 1000))


def _pid_of(pidfd: int) -> int:
    for line in Path(f"/proc/self/fdinfo/{pidfd}").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "Pid" and int(value) > 0:
            return int(value)
    raise OSError("the first process of the step has ended")


def _status(pid: int) -> dict[str, str]:
    fd = os.open(f"/proc/{pid}/status", os.O_RDONLY | os.O_CLOEXEC)
    try:
        text = os.read(fd, _MOST_STATUS_BYTES).decode()
    finally:
        os.close(fd)
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


@cache
def _namespaces_of_this_process(pid: int) -> dict[str, str]:
    # The worker never leaves its namespaces; the id as argument makes a fork of the worker read its own.
    return {name: _namespace(pid, name) for name in _ALL_NAMESPACES}


def _namespace(pid: int, name: str) -> str:
    return os.readlink(f"/proc/{pid}/ns/{name}")  # noqa: PTH115 - one of many, of every step
