"""How much memory there is for steps, as machines and control groups tell it."""

from pathlib import Path

import pytest

from backend.runtime.execution.slots import default_memory_mb, usable_mb

GIB = 1 << 30


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine of 16 GiB."""
    write(tmp_path, "proc/meminfo", "MemFree:  1 kB\nMemTotal:       16777216 kB\n")
    return tmp_path


def write(root: Path, path: str, content: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)


def test_without_a_limit_it_is_the_machines(root: Path) -> None:
    assert usable_mb(root) == 16 * 1024
    write(root, "proc/self/cgroup", "0::/user.slice\n")
    write(root, "sys/fs/cgroup/user.slice/memory.max", "max\n")
    assert usable_mb(root) == 16 * 1024


def test_the_least_limit_above_the_process_counts(root: Path) -> None:
    write(root, "proc/self/cgroup", "0::/system.slice/worker.service\n")
    write(root, "sys/fs/cgroup/system.slice/worker.service/memory.max", "max\n")
    write(root, "sys/fs/cgroup/system.slice/memory.max", f"{8 * GIB}\n")
    write(root, "sys/fs/cgroup/memory.max", f"{9 * GIB}\n")
    assert usable_mb(root) == 8 * 1024


def test_the_limit_of_a_group_of_version_1_counts(root: Path) -> None:
    write(root, "proc/self/cgroup", "5:cpu,cpuacct:/\n4:memory:/docker/1\n0::/\n")
    # In a container its own group is the root.
    write(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", f"{4 * GIB}\n")
    assert usable_mb(root) == 4 * 1024


def test_a_group_of_version_1_without_a_limit_has_the_machines(root: Path) -> None:
    write(root, "proc/self/cgroup", "4:memory:/\n")
    write(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    assert usable_mb(root) == 16 * 1024


def test_steps_get_three_quarters_and_at_least_what_one_may_ask_for(root: Path) -> None:
    assert default_memory_mb(root) == 12 * 1024
    write(root, "proc/self/cgroup", "0::/\n")
    write(root, "sys/fs/cgroup/memory.max", f"{2 * GIB}\n")
    assert default_memory_mb(root) == 3_008


def test_it_is_known_of_this_machine() -> None:
    assert usable_mb() > 0
