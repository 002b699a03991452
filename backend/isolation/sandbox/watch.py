"""Kills steps that exceed their limits, where no limit of the kernel covers all processes of a step together."""

import contextlib
import errno
import logging
import os
import stat
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from backend.isolation.sandbox.limits import PROCESSES, Limits
from backend.isolation.sandbox.process import Excess, WatchedProcesses

_LOG = logging.getLogger(__name__)

MIN_INTERVAL_SECONDS: Final = 0.1
MAX_INTERVAL_SECONDS: Final = 0.5
SHARE_OF_A_CORE: Final = 0.2
"""Largest part of one core that the checks may use."""
LAYER_PROCESSES: Final = 1
"""The first process of a namespace is counted with the step's, and is the layer's."""
LEAST_FILE_BYTES: Final = 4096
"""Bytes that even an empty file counts, because its directory entry takes space."""


class ProcessInfo(NamedTuple):
    """A process of the machine: its id, its parent's id, its resident memory in bytes, and its number of threads."""

    pid: int
    parent: int
    resident: int
    threads: int


class LimitWatch:
    """Thread that checks every running step two to ten times a second, and kills those that exceed a limit.

    Between two checks a step may exceed its limits. A check reads every process of the machine, so there is none for
    steps that have all begun since the last: a step is checked for the first time within two intervals.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._steps: dict[WatchedProcesses, Limits] = {}
        self._closed = False
        self._idle = False
        self._thread = threading.Thread(target=self._run, name="step-watch", daemon=True)
        self._thread.start()

    def add(self, process: WatchedProcesses, limits: Limits) -> None:
        """Begins to check this step."""
        with self._changed:
            # A running thread looks again by itself.
            if self._idle:
                self._changed.notify()
            self._steps[process] = limits

    def remove(self, process: WatchedProcesses) -> None:
        """Stops checking this step; it is not killed by this thread after the return."""
        with self._changed:
            self._steps.pop(process, None)

    def close(self) -> None:
        """Ends the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        interval = MIN_INTERVAL_SECONDS
        before: frozenset[WatchedProcesses] = frozenset()
        while True:
            with self._changed:
                self._idle = True
                self._changed.wait_for(lambda: self._closed or bool(self._steps))
                self._idle = False
                self._changed.wait_for(lambda: self._closed, interval)
                if self._closed:
                    return
                steps = {process: limits for process, limits in self._steps.items() if process in before}
                before = frozenset(self._steps)
            if not steps:
                continue
            begun = time.monotonic()
            try:
                self._check(steps)
            except Exception:  # noqa: BLE001 - the next check may succeed
                _LOG.exception("Checking the limits of the running steps failed")
            interval = min(
                max(MIN_INTERVAL_SECONDS, (time.monotonic() - begun) / SHARE_OF_A_CORE), MAX_INTERVAL_SECONDS
            )

    def _check(self, steps: Mapping[WatchedProcesses, Limits]) -> None:
        children: defaultdict[int, list[ProcessInfo]] = defaultdict(list)
        by_id: dict[int, ProcessInfo] = {}
        for one in _processes():
            by_id[one.pid] = one
            children[one.parent].append(one)
        for process, limits in steps.items():
            if process.pid in by_id and process.exceeded is None:
                family = [] if process.wrapped else [by_id[process.pid]]
                family += _descendants(process.pid, children, process.excluded_pids)
                # The files of a step that ends meanwhile are gone.
                with contextlib.suppress(FileNotFoundError):
                    exceeded = _excess(process, family, limits)
                    if exceeded is not None:
                        self._kill(process, exceeded)

    def _kill(self, process: WatchedProcesses, exceeded: Excess) -> None:
        with self._changed:
            if process in self._steps:
                process.exceeded = exceeded
                process.kill()


def _excess(process: WatchedProcesses, family: list[ProcessInfo], limits: Limits) -> Excess | None:
    """Returns the resource that the step's processes, or the files that they wrote, exceed."""
    if sum(one.threads for one in family) > PROCESSES + LAYER_PROCESSES:
        return "processes"
    if sum(one.resident for one in family) > limits.memory_bytes and sum(map(_memory_of, family)) > limits.memory_bytes:
        return "memory"
    if process.scratch is not None:
        too_large = _is_larger(process.scratch, family, limits.workspace_bytes)
    else:
        too_large = _entries(process) * LEAST_FILE_BYTES > limits.workspace_bytes
    return "workspace" if too_large else None


def _entries(process: WatchedProcesses) -> int:
    """Returns the number of files and folders of a tmpfs workspace, which limits their bytes but not their number."""
    if process.root is None:
        return 0
    try:
        status = os.statvfs(process.root / Path(process.layout.workspace).relative_to("/"))
    except OSError:
        return 0
    return status.f_files - status.f_ffree


def _processes() -> Iterator[ProcessInfo]:
    page = os.sysconf("SC_PAGESIZE")
    for name in os.listdir("/proc"):  # noqa: PTH208 - a third of the time
        if name.isdecimal():
            with contextlib.suppress(OSError):
                # The name of the command is in parentheses and may hold any character.
                fields = _read(f"/proc/{name}/stat").rpartition(b")")[2].split()
                yield ProcessInfo(int(name), int(fields[1]), int(fields[21]) * page, int(fields[17]))


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 8192)
    finally:
        os.close(fd)


def _descendants(pid: int, children: Mapping[int, list[ProcessInfo]], excluded: frozenset[int]) -> list[ProcessInfo]:
    found = list(children.get(pid, ()))
    for one in found:
        found += (child for child in children.get(one.pid, ()) if child.pid not in excluded)
    return found


def _memory_of(one: ProcessInfo) -> int:
    """Returns the bytes of memory that back no file; memory shared by several processes is divided among them."""
    try:
        lines = _read(f"/proc/{one.pid}/smaps_rollup").splitlines()
    except PermissionError:
        return one.resident
    except OSError:
        return 0
    counted = (b"Pss_Anon:", b"Pss_Shmem:", b"SwapPss:")
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(counted))


class _TooDeepError(Exception):
    """Folders are nested so deep that the paths below exceed the limit of the kernel."""


def _is_larger(folder: Path, family: Iterable[ProcessInfo], most: int) -> bool:
    """Returns whether the files below a folder, and its deleted files that are open, take more than `most` bytes.

    True also if folders are nested too deep to be counted.
    """
    total = 0
    linked: set[int] = set()
    try:
        found = [*_below(folder, most // LEAST_FILE_BYTES), *_deleted(folder, family)]
    except _TooDeepError:
        return True
    for status in found:
        if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
            if status.st_ino in linked:
                continue
            linked.add(status.st_ino)
        total += max(status.st_blocks * 512, LEAST_FILE_BYTES)
    return total > most


def _below(folder: Path, most: int) -> Iterator[os.stat_result]:
    """Yields the entries below a folder, at most one more than `most`."""
    waiting = [str(folder)]
    seen = 0
    while waiting and seen <= most:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    seen += 1
                    if seen > most + 1:
                        return
                    with contextlib.suppress(FileNotFoundError):
                        yield entry.stat(follow_symlinks=False)
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                raise _TooDeepError from error


def _deleted(folder: Path, family: Iterable[ProcessInfo]) -> Iterator[os.stat_result]:
    device = folder.stat().st_dev
    seen: set[int] = set()
    for one in family:
        with contextlib.suppress(OSError):
            for fd in os.listdir(f"/proc/{one.pid}/fd"):  # noqa: PTH208 - pathlib takes longer
                with contextlib.suppress(OSError):
                    status = Path(f"/proc/{one.pid}/fd/{fd}").stat()
                    if (
                        status.st_dev == device
                        and status.st_nlink == 0
                        and stat.S_ISREG(status.st_mode)
                        and status.st_ino not in seen
                    ):
                        seen.add(status.st_ino)
                        yield status
