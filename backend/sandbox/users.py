"""Allocates user ids for steps, and gives these users access to files."""

import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Final

SETUID, SETGID, SETPCAP, DAC_READ_SEARCH, SYS_ADMIN = 7, 6, 8, 2, 21
"""Numbers of capabilities."""

STEPS_PER_WORKER: Final = 512
_FIRST: Final = 2**30
"""The first user id for steps; distributions and directory services assign far lower ones."""


class Users:
    """Allocator of unused user ids, one for each running step of this worker. Thread-safe.

    A step with such an id owns its own files only, can signal its own processes only, and has its own count for
    RLIMIT_NPROC, from which the kernel exempts root.
    """

    def __init__(self) -> None:
        self._first = _FIRST + os.getpid() * STEPS_PER_WORKER
        self._lock = threading.Lock()
        self._taken: set[int] = set()

    @property
    def range(self) -> tuple[int, int]:
        """The first of this worker's user ids, and their number."""
        return self._first, STEPS_PER_WORKER

    def take(self) -> int:
        """Allocates a user id; raises OSError if all are in use."""
        with self._lock:
            for user in range(self._first, self._first + STEPS_PER_WORKER):
                if user not in self._taken:
                    self._taken.add(user)
                    return user
        raise OSError(f"this worker already runs {STEPS_PER_WORKER} steps")

    def give_back(self, user: int) -> None:
        """Releases the id of a step whose processes are all dead."""
        with self._lock:
            self._taken.discard(user)


def can_become_others(*capabilities: int) -> bool:
    """Returns whether this process is root, may change to the user ids of steps, and has the capabilities."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    held = int(status["CapEff"], 16)
    wanted = (SETUID, SETGID, SETPCAP, *capabilities)
    return os.geteuid() == 0 and _mapped(_FIRST) and all(held >> capability & 1 for capability in wanted)


def open_to_readers(folder: Path) -> None:
    """Makes `folder` and its content readable for all users with access to the folders above. Raises OSError."""
    for path in _tree(folder):
        mode = path.lstat().st_mode
        wanted = mode | (0o555 if path.is_dir() else 0o444)
        if wanted != mode:
            path.chmod(wanted & 0o7777)


def _tree(folder: Path) -> Iterable[Path]:
    yield folder
    for parent, folders, files in os.walk(folder):
        yield from (path for name in (*folders, *files) if not (path := Path(parent, name)).is_symlink())


def _mapped(user: int) -> bool:
    for line in Path("/proc/self/uid_map").read_text().splitlines():
        first, _, count = map(int, line.split())
        if first <= user and user + 2**31 <= first + count:
            return True
    return False
