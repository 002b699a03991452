"""The default of the memory that this process gives its steps."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

LARGEST_STEP_MB: Final = 3_008
"""The most that an execution environment gives. (contract 22.6)"""


def default_memory_mb(root: Path = Path("/")) -> int:
    """Returns three quarters of what the process may use; the rest is for itself and for files of steps in memory.

    At least what the largest step may ask for, so that every step can run, if need be alone.
    """
    return max(LARGEST_STEP_MB, usable_mb(root) * 3 // 4)


def usable_mb(root: Path = Path("/")) -> int:
    """Returns the memory of the machine, or less where a control group of the process, version 1 or 2, has a limit."""
    return min(_machine(root), *_limits(root)) >> 20


def _machine(root: Path) -> int:
    for line in (root / "proc/meminfo").read_text().splitlines():
        name, _, size = line.partition(":")
        if name == "MemTotal":
            return int(size.split()[0]) * 1024
    raise ValueError("the system does not tell how much memory there is")


def _limits(root: Path) -> Iterator[int]:
    """Yields the limits of the process's groups and of all groups above them; in a container those that it can see."""
    yield 1 << 62
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            number, controllers, path = line.split(":", 2)
            if number == "0":
                yield from _limits_above(root / "sys/fs/cgroup", path, "memory.max")
            elif "memory" in controllers.split(","):
                yield from _limits_above(root / "sys/fs/cgroup/memory", path, "memory.limit_in_bytes")


def _limits_above(base: Path, path: str, name: str) -> Iterator[int]:
    group = base / path.lstrip("/")
    for folder in (group, *(parent for parent in group.parents if parent.is_relative_to(base))):
        # Without a limit it says `max`, or is not there.
        with suppress(OSError, ValueError):
            yield int((folder / name).read_text())
