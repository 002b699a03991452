"""Samples of what a deployment uses: each process with its descendants, its folders, and its database."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

_PRIVATE: Final = ("Private_Clean:", "Private_Dirty:")
_KIB: Final = 1024

Sample = dict[str, float]
"""Values by their names, as `backend: open files` or `rows of runs`; memory and sizes are in bytes."""


def of_process(role: str, pid: int) -> Sample:
    """What a process uses, and its descendants together, whose number changes with the steps that run.

    Raises:
        FileNotFoundError: the process has ended.
    """
    found = _usage(pid)
    below = [usage for each in _descendants(pid) if (usage := _of_one_that_may_end(each))]
    sample = {f"{role}: {name}": value for name, value in found.items()}
    sample[f"{role}: child processes"] = len(below)
    for name in ("unique memory", "open files"):
        sample[f"{role}: {name} of child processes"] = sum(usage[name] for usage in below)
    return sample


def of_folder(name: str, folder: Path) -> Sample:
    """Number of files and of bytes below a folder, which may change meanwhile."""
    sizes = list(_sizes(folder))
    return {f"{name}: files": len(sizes), f"{name}: bytes": sum(sizes)}


def _usage(pid: int) -> Sample:
    process = Path(f"/proc/{pid}")
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    if status["State"].split()[0] == "Z":
        raise FileNotFoundError(process)
    files = [_target(file) for file in (process / "fd").iterdir()]
    return {
        "resident memory": int(status["VmRSS"].split()[0]) * _KIB,
        "unique memory": _unique_memory(process),
        "open files": len(files),
        "sockets": sum(target.startswith("socket:") for target in files),
        "threads": int(status["Threads"]),
    }


def _unique_memory(process: Path) -> int:
    lines = (process / "smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * _KIB for line in lines if line.startswith(_PRIVATE))


def _target(file: Path) -> str:
    try:
        return str(file.readlink())
    except FileNotFoundError:
        # It was closed since it was listed.
        return ""


def _of_one_that_may_end(pid: int) -> Mapping[str, float] | None:
    try:
        return _usage(pid)
    except (OSError, KeyError):
        return None


def _descendants(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").glob("*"):
        try:
            children = (task / "children").read_text().split()
        except OSError:
            continue
        for child in map(int, children):
            yield child
            yield from _descendants(child)


def _sizes(folder: Path) -> Iterator[int]:
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                yield (Path(root) / name).lstat().st_size
            except FileNotFoundError:
                continue
