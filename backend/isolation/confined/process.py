"""A confined process as seen by its pool, and the thread that starts child processes."""

import itertools
import os
import queue
import resource
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from backend.isolation.confined.confinement import confinement
from backend.isolation.confined.frames import ConfinedError, FailureKind, FrameChannel, Message, encode

T = TypeVar("T")


class _Job(NamedTuple):
    priority: int
    order: int
    work: Callable[[], Any] | None
    future: Future[Any]


class Spawner:
    """Long-lived thread that starts child processes.

    The kernel sends the parent-death signal of a child when the thread that started it ends. So children outlive the
    threads of requests, and closing the spawner ends them all.
    """

    def __init__(self, name: str) -> None:
        self._jobs: queue.PriorityQueue[_Job] = queue.PriorityQueue()
        self._order = itertools.count()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[], T], *, urgent: bool = True) -> Future[T]:
        """Runs `work` on the spawner's thread; work that is not urgent waits until no urgent work is queued."""
        future: Future[T] = Future()
        self._jobs.put(_Job(0 if urgent else 1, next(self._order), work, future))
        return future

    def close(self) -> None:
        """Finishes the queued work, then ends the thread."""
        self._jobs.put(_Job(2, next(self._order), None, Future()))
        self._thread.join()

    def _run(self) -> None:
        while (job := self._jobs.get()).work is not None:
            if not job.future.set_running_or_notify_cancel():
                continue
            try:
                job.future.set_result(job.work())
            except BaseException as error:  # noqa: BLE001 - raised to the thread that waits for the result
                job.future.set_exception(error)


START_SECONDS: Final = 120.0
"""Seconds that a process may take to load its program on a busy machine."""
# A process that has grown by more than this is not reused.
_LARGEST_IDLE_GROWTH_BYTES: Final = 512 * 2**20
_CPU_CLOCK: Final = 2
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Program:
    """Program of the processes of a pool; its `configuration` is JSON and may hold a secret."""

    module: str
    network: bool = False
    configuration: object = None
    readable: tuple[Path, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class ConfinedProcess:
    """Child process that serves jobs in succession; used by one thread at a time, killed from any."""

    popen: "subprocess.Popen[bytes]"
    channel: FrameChannel
    scratch: Path | None
    confinement: Message = field(default_factory=dict)
    _ready: bool = False
    _idle_bytes: int = 0

    @property
    def pid(self) -> int:
        """The process id."""
        return self.popen.pid

    @property
    def alive(self) -> bool:
        """Returns whether the process still runs."""
        return self.popen.poll() is None

    def await_ready(self, check: Callable[[], None]) -> None:
        """Waits until the process is confined and has loaded its program.

        Raises:
            ConfinedError: it could not be started, or `check` raised.
        """
        if self._ready:
            return
        confinement = self.channel.receive(check).get("confinement")
        if not isinstance(confinement, dict) or self.channel.receive(check).get("ready") is not True:
            raise ConfinedError(FailureKind.DIED, "its process could not be started")
        self.confinement = confinement
        self._ready = True
        self._idle_bytes = self._memory()[0]

    def run(self, job: bytes, memory_bytes: int, descriptors: Sequence[int], check: Callable[[], None]) -> Any:
        """Runs one job, which may allocate `memory_bytes`, and returns its result; raises ConfinedError."""
        self._limit_memory(memory_bytes)
        self.channel.send(job, descriptors, check)
        return _result(self.channel.receive(check))

    @property
    def cpu_seconds(self) -> float:
        """Processor time of all threads of the process so far; infinity if it has ended."""
        try:
            return time.clock_gettime(~self.pid << 3 | _CPU_CLOCK)
        except OSError:
            return float("inf")

    @property
    def reusable(self) -> bool:
        """Returns whether the process is small enough for another job."""
        with suppress(OSError):
            return self._memory()[0] <= self._idle_bytes + _LARGEST_IDLE_GROWTH_BYTES
        return False

    def clear_scratch(self) -> bool:
        """Empties the scratch folder; returns False if that failed."""
        try:
            for entry in () if self.scratch is None else self.scratch.iterdir():
                _remove(entry)
        except OSError:
            return False
        return True

    def kill(self) -> None:
        """Ends and reaps the process, and removes its scratch folder. Idempotent."""
        _end(self.popen)
        if self.scratch is not None:
            _remove(self.scratch)

    def _limit_memory(self, memory_bytes: int) -> None:
        with suppress(OSError):
            _, data = self._memory()
            # The hard limit stays, for a lowered one could not be raised for the next job.
            _, hard = resource.prlimit(self.pid, resource.RLIMIT_DATA)
            limit = data + memory_bytes
            resource.prlimit(
                self.pid, resource.RLIMIT_DATA, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard)
            )

    def _memory(self) -> tuple[int, int]:
        """Returns the resident bytes, and the bytes of data and stack."""
        fields = Path(f"/proc/{self.pid}/statm").read_text().split()
        return int(fields[1]) * _PAGE, int(fields[5]) * _PAGE


def start_process(program: Program, scratch: Path | None) -> ConfinedProcess:
    """Starts a process and sends it the options of its confinement.

    The process ends with the calling thread.

    Raises:
        OSError: the machine cannot start another process.
    """
    parent_end, child_end = socket.socketpair()
    with child_end, ExitStack() as on_failure:
        on_failure.enter_context(parent_end)
        if scratch is not None:
            on_failure.callback(_remove, scratch)
            scratch.mkdir(mode=0o700, parents=True)
        options = encode(_options(program, scratch))
        command = [
            sys.executable,
            "-I",
            "-X",
            "utf8",
            "-m",
            "backend.isolation.confined.child",
            str(child_end.fileno()),
        ]
        popen = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=program.environment,
            cwd="/",
            pass_fds=(child_end.fileno(),),
        )
        on_failure.callback(_end, popen)
        child_end.close()
        with suppress(OSError):
            # The first wait for a child that has died already raises.
            parent_end.sendall(options)
        process = ConfinedProcess(popen, FrameChannel(parent_end), scratch)
        on_failure.pop_all()
        return process


def _options(program: Program, scratch: Path | None) -> Message:
    own = [] if scratch is None else [scratch]
    return {
        "program": program.module,
        "configuration": program.configuration,
        "scratch": None if scratch is None else str(scratch),
        **confinement(os.getpid(), readable=program.readable, own=own, network=program.network),
    }


def _end(popen: "subprocess.Popen[bytes]") -> None:
    popen.kill()
    popen.wait()


def _result(answer: Message) -> Any:
    match answer:
        case {"result": result}:
            return result
        case {"error": FailureKind.MEMORY.value}:
            raise ConfinedError(FailureKind.MEMORY, "it needs more memory than it may have")
        case {"error": FailureKind.TOO_LARGE.value}:
            raise ConfinedError(FailureKind.TOO_LARGE, "its answer is larger than allowed")
        case {"error": FailureKind.FAILED.value, "message": str(message), "data": data}:
            raise ConfinedError(FailureKind.FAILED, message[:1_000], data)
    raise ConfinedError(FailureKind.DIED, "its answer was malformed")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
