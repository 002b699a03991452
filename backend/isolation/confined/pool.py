"""Pool of confined processes, each of which runs one job at a time."""

import fcntl
import itertools
import logging
import math
import os
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from backend.isolation.confined.fair_slots import FairSlots
from backend.isolation.confined.frames import ConfinedError, FailureKind, FrameTooLargeError, Message, encode
from backend.isolation.confined.process import START_SECONDS, ConfinedProcess, Program, Spawner, start_process

_WALL_SECONDS: Final = 60.0
_WALL_PER_CPU_SECOND: Final = 10.0

# A process may die without fault of its job, for instance when the machine is short of memory.
_RETRIED: Final = frozenset({FailureKind.DIED, FailureKind.UNAVAILABLE})
_REUSABLE: Final = frozenset({FailureKind.FAILED, FailureKind.TOO_LARGE})
_LOG = logging.getLogger(__name__)


class ConfinedPool:
    """Runs jobs of one program in child processes without rights. Thread-safe; every call waits for its job.

    The first job starts the first process; while a job takes long, a spare process is kept ready. Processes end with
    the pool, and with the service even if it is killed.

    Args:
        program: The module that the processes run; see `backend.isolation.confined`.
        size: Jobs that run at once, by default one per processor. Owners without a running job share as many more.
        name: Name of the pool, for its threads and log lines.
        network: Whether the processes may open connections to other machines.
        configuration: JSON for the program's `configure`.
        readable: Folders that the processes may read besides the interpreter and its packages.
        environment: All environment variables of the processes; none is inherited.
        scratch: A folder, removed first, below which each process gets a folder to write to, empty before each job.
        spare: Whether a process is kept ready besides the busy ones.
    """

    def __init__(
        self,
        program: str,
        *,
        name: str,
        size: int | None = None,
        network: bool = False,
        configuration: object = None,
        readable: Sequence[Path] = (),
        environment: Mapping[str, str] | None = None,
        scratch: Path | None = None,
        spare: bool = True,
    ) -> None:
        self._size = size or os.cpu_count() or 1
        self._name = name
        self._program = Program(program, network, configuration, tuple(readable), environment or {})
        self._scratch = scratch
        self._spare = spare
        self._slots = FairSlots(self._size, reserve=self._size)
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._spawner: Spawner | None = None
        self._idle: deque[ConfinedProcess] = deque()
        self._busy: set[ConfinedProcess] = set()
        self._starting = 0
        self._closed = threading.Event()
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)

    def run(
        self,
        operation: str,
        arguments: object,
        *,
        owner: str,
        cpu_seconds: float,
        memory_bytes: int,
        descriptors: Sequence[int] = (),
        halt: threading.Event | None = None,
        extra_wall_seconds: float = 0.0,
        most_wall_seconds: float = math.inf,
    ) -> Any:
        """Runs one job and returns its result, as JSON.

        A job whose process died or could not be started is retried once, because a machine that is short of memory
        kills these processes first.

        Args:
            operation: The name of an operation of the program.
            arguments: JSON for the operation.
            owner: Owner of the job, for instance the id of an API key; owners get processes round robin.
            cpu_seconds: Processor time of all threads of the job, after which its process is killed.
            memory_bytes: Bytes that the job may allocate.
            descriptors: Open regular files for the job, at most 16. Before a retry their positions are restored, and
                the sizes of those open for writing.
            halt: Event that ends the job within a fraction of a second once it is set.
            extra_wall_seconds: Added to the wall-clock limit, which is a minute and ten times `cpu_seconds`, for jobs
                that wait for others.
            most_wall_seconds: The wall-clock limit where that would be longer, for jobs that occupy a scarce thread.

        Raises:
            ConfinedError: there is no result; see its `kind`.
        """
        try:
            job = encode({"operation": operation, "arguments": arguments})
        except FrameTooLargeError as error:
            raise ConfinedError(FailureKind.TOO_LARGE, str(error)) from None
        allowed = _WALL_SECONDS + _WALL_PER_CPU_SECOND * cpu_seconds + extra_wall_seconds
        wall_seconds = min(most_wall_seconds, allowed)

        def attempt() -> Any:
            process = self._ready_process(halt)
            check = self._limits(process, cpu_seconds, wall_seconds, halt)
            return self._attempt(process, job, memory_bytes, descriptors, check)

        before = [(one, os.lseek(one, 0, os.SEEK_CUR), os.fstat(one).st_size) for one in descriptors]
        with self._slots.slot(owner, halt):
            try:
                return attempt()
            except ConfinedError as error:
                if error.kind not in _RETRIED:
                    raise
            _restore(before)
            return attempt()

    @property
    def pids(self) -> list[int]:
        """Ids of the running processes, busy or idle."""
        with self._lock:
            return [process.pid for process in (*self._busy, *self._idle)]

    @property
    def confinement(self) -> list[Message]:
        """The layers in force for each process that has started: `namespaces`, `landlock` and `filter`."""
        with self._lock:
            return [process.confinement for process in (*self._busy, *self._idle) if process.confinement]

    def close(self) -> None:
        """Ends every process and job; later jobs fail. Idempotent."""
        self._closed.set()
        self._slots.close()
        with self._lock:
            spawner, self._spawner = self._spawner, None
        if spawner is not None:
            # Finishes the starts under way, and ends the processes that it has started.
            spawner.close()
        with self._lock:
            idle, busy = list(self._idle), list(self._busy)
            self._idle.clear()
        for process in idle:
            self._discard(process)
        for process in busy:
            # The thread that waits for its job closes the channel.
            process.kill()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _attempt(
        self,
        process: ConfinedProcess,
        job: bytes,
        memory_bytes: int,
        descriptors: Sequence[int],
        check: Callable[[], None],
    ) -> Any:
        usable = False
        try:
            result = process.run(job, memory_bytes, descriptors, check)
            usable = True
        except ConfinedError as error:
            usable = error.kind in _REUSABLE
            raise self._explained(error) from None
        finally:
            self._put_back(process, usable=usable)
        return result

    def _limits(
        self, process: ConfinedProcess, cpu_seconds: float, wall_seconds: float, halt: threading.Event | None
    ) -> Callable[[], None]:
        """Returns a check that raises ConfinedError once the job must end."""
        cpu_end = process.cpu_seconds + cpu_seconds
        wall_end = time.monotonic() + wall_seconds

        def check() -> None:
            self._check_not_halted(halt)
            # Starts a spare now, so that the next job need not wait for a start.
            self._start_spare()
            used = process.cpu_seconds
            if math.isinf(used):
                # The process has ended; the end of its socket raises the error.
                return
            if used > cpu_end:
                raise ConfinedError(
                    FailureKind.DEADLINE, f"it takes more than {cpu_seconds:g} seconds of processor time"
                )
            if time.monotonic() > wall_end:
                raise ConfinedError(FailureKind.DEADLINE, f"it takes longer than {wall_seconds:g} seconds")

        return check

    def _check_not_halted(self, halt: threading.Event | None) -> None:
        if halt is not None and halt.is_set():
            raise ConfinedError(FailureKind.HALTED, "it was ended")
        if self._closed.is_set():
            raise ConfinedError(FailureKind.CLOSED, "the service ends")

    def _explained(self, error: ConfinedError) -> ConfinedError:
        """Returns the error CLOSED for a process that died because `close` killed it."""
        if error.kind is FailureKind.DIED and self._closed.is_set():
            return ConfinedError(FailureKind.CLOSED, "the service ends")
        return error

    def _ready_process(self, halt: threading.Event | None) -> ConfinedProcess:
        """Returns a process that is ready for a job, after adding it to the busy ones."""
        process = self._idle_process() or self._started()
        with self._lock:
            self._busy.add(process)
        start_end = time.monotonic() + START_SECONDS

        def check() -> None:
            self._check_not_halted(halt)
            if time.monotonic() > start_end:
                raise ConfinedError(FailureKind.UNAVAILABLE, "its process could not be started in time")

        try:
            process.await_ready(check)
        except (ConfinedError, OSError) as caught:
            self._put_back(process, usable=False)
            error = self._explained(
                caught if isinstance(caught, ConfinedError) else ConfinedError(FailureKind.DIED, "its process died")
            )
            if error.kind is FailureKind.DIED:
                error = ConfinedError(FailureKind.UNAVAILABLE, "its process could not be started")
            raise error from None
        return process

    def _idle_process(self) -> ConfinedProcess | None:
        while True:
            with self._lock:
                if not self._idle:
                    return None
                process = self._idle.popleft()
            if process.alive:
                return process
            self._discard(process)

    def _started(self) -> ConfinedProcess:
        with self._lock:
            if self._closed.is_set():
                raise ConfinedError(FailureKind.CLOSED, "the service ends")
            if self._spawner is None:
                self._spawner = Spawner(f"{self._name}-spawner")
            starting = self._spawner.submit(self._start)
        try:
            return starting.result()
        except OSError as error:
            raise ConfinedError(
                FailureKind.UNAVAILABLE, f"its process could not be started: {error.strerror}"
            ) from None

    def _start(self) -> ConfinedProcess:
        folder = None if self._scratch is None else self._scratch / str(next(self._numbers))
        return start_process(self._program, folder)

    def _start_spare(self) -> None:
        """Starts a process for the next job, unless one is ready or starting."""
        if not self._spare:
            return
        with self._lock:
            count = len(self._busy) + len(self._idle) + self._starting
            if self._idle or self._starting or count > self._size or self._spawner is None:
                return
            self._starting += 1
            spawner = self._spawner

            def start() -> None:
                process = None
                try:
                    process = self._start()
                except Exception:  # noqa: BLE001 - logged; the next job starts its own
                    _LOG.exception("A spare process of %s could not be started", self._name)
                finally:
                    with self._lock:
                        self._starting -= 1
                        if process is not None:
                            self._idle.append(process)

            spawner.submit(start, urgent=False)

    def _put_back(self, process: ConfinedProcess, *, usable: bool) -> None:
        usable = usable and process.alive and process.reusable
        with self._lock:
            self._busy.discard(process)
        # Fails once the pool is closed, which removes the scratch folders.
        usable = usable and process.clear_scratch()
        with self._lock:
            keep = usable and not self._closed.is_set() and len(self._idle) < self._size
            if keep:
                # The process used last is taken first, for its memory is in the caches.
                self._idle.appendleft(process)
        if not keep:
            self._discard(process)
            self._start_spare()

    def _discard(self, process: ConfinedProcess) -> None:
        process.kill()
        process.channel.close()


def _restore(files: Iterable[tuple[int, int, int]]) -> None:
    """Restores files, each given as descriptor, position and size."""
    for descriptor, position, size in files:
        os.lseek(descriptor, position, os.SEEK_SET)
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY:
            os.ftruncate(descriptor, size)
