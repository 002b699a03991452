"""User ids for steps, which nobody else on the machine has."""

import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Final

SETUID, SETGID, SETPCAP, DAC_READ_SEARCH, SYS_ADMIN = 7, 6, 8, 2, 21
"""Numbers of capabilities."""

STEPS_PER_WORKER: Final = 512
_FIRST: Final = 2**30
"""User ids from here on belong to nobody: distributions and directory services give out far lower ones."""


class Users:
    """User ids that nobody on this machine has, one for each living step of this worker.

    A step under one owns nothing but its own files, can signal nobody else's processes, and is counted by itself
    against RLIMIT_NPROC, from which the kernel exempts root. Thread-safe.
    """

    def __init__(self) -> None:
        self._first = _FIRST + os.getpid() * STEPS_PER_WORKER
        self._lock = threading.Lock()
        self._taken: set[int] = set()

    def take(self) -> int:
        """A free user id; raises OSError when all are taken."""
        with self._lock:
            for user in range(self._first, self._first + STEPS_PER_WORKER):
                if user not in self._taken:
                    self._taken.add(user)
                    return user
        raise OSError(f"this worker already runs {STEPS_PER_WORKER} steps")

    def give_back(self, user: int) -> None:
        """Free the id of a step whose processes are all dead."""
        with self._lock:
            self._taken.discard(user)


def can_become_others(*capabilities: int) -> bool:
    """Whether this process is root, may take on those user ids, and has the capabilities."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    held = int(status["CapEff"], 16)
    wanted = (SETUID, SETGID, SETPCAP, *capabilities)
    return os.geteuid() == 0 and _mapped(_FIRST) and all(held >> capability & 1 for capability in wanted)


def open_to_readers(folder: Path) -> None:
    """Let every user read what lies in `folder`; who may come near it, the folders above it say. Raises OSError."""
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
