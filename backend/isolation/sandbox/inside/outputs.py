"""Sends outputs and shared files to the worker, and counts the entries that are left out."""

from __future__ import annotations

import os
import stat

from backend.isolation.sandbox.inside.channel import (
    DEVICE,
    FOLDERS,
    MAX_PATH_BYTES,
    OVER_DIRECTORIES,
    OVER_FILES,
    OVER_LEVELS,
    PIPE,
    SKIPPED,
    SOCKET,
    SYMLINK,
    note,
)
from backend.isolation.sandbox.inside.plain_json import encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from backend.isolation.sandbox.inside.channel import StepChannel


class OutputsError(Exception):
    """An output or a shared file whose name the contract does not allow."""


def send_outputs(channel: StepChannel, folders: dict[str, str], limits: dict[str, int]) -> None:
    """Sends the regular files of both folders within the limits of a step, then the skipped entries counted by kind.

    Outputs come before shared files. Directories are counted in the order of their names, each before those inside it;
    files of directories beyond the limit are skipped.

    Raises:
        OutputsError: a name is not UTF-8 or too long.
    """
    files = 0
    skipped: dict[str, int] = {}
    for folder, path, unfit in _entries(folders, limits):
        kind = OVER_FILES if unfit is None and files == limits["files"] else unfit
        if kind is None:
            files += 1
            _send(channel, folder, os.path.join(folders[folder], path), path)  # noqa: PTH118 - names may not be UTF-8
        else:
            skipped[kind] = skipped.get(kind, 0) + 1
    if skipped:
        channel.send(SKIPPED, encode(skipped))


def _entries(roots: dict[str, str], limits: dict[str, int]) -> Iterator[tuple[str, str, str | None]]:
    """Yields (folder, path, kind of a skipped entry or None) for every entry that is no folder, folder by folder.

    A folder that is too deep to be listed is yielded itself. A root that was replaced by a link, or whose parent was,
    is yielded as one entry.
    """
    directories = 0
    folders = [(name, "", 0) for name in reversed(FOLDERS)]
    while folders:
        name, folder, level = folders.pop()
        if not level and os.path.realpath(roots[name]) != roots[name]:
            yield name, "", SYMLINK
            continue
        beyond = None
        if level > limits["levels"]:
            beyond = OVER_LEVELS
        elif folder:
            directories += 1
            if directories > limits["directories"]:
                beyond = OVER_DIRECTORIES
        try:
            entries = sorted(os.scandir(os.path.join(roots[name], folder)), key=lambda entry: entry.name)  # noqa: PTH118 - names may not be UTF-8
        except OSError:
            # The path of an entry below may exceed the limit of the kernel.
            if beyond != OVER_LEVELS:
                raise
            yield name, folder, beyond
            continue
        inner = []
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir(follow_symlinks=False):
                inner.append((name, path, level + 1))
            else:
                yield name, path, beyond or _kind(entry)
        folders += reversed(inner)


def _kind(entry: os.DirEntry[str]) -> str | None:
    """Returns the kind of an entry that is no regular file, which the step's log names; None for a regular file."""
    if entry.is_file(follow_symlinks=False):
        return None
    note(f"{entry.path!r} is not a regular file and was left out")
    mode = entry.stat(follow_symlinks=False).st_mode
    if stat.S_ISLNK(mode):
        return SYMLINK
    if stat.S_ISFIFO(mode):
        return PIPE
    return SOCKET if stat.S_ISSOCK(mode) else DEVICE


def _send(channel: StepChannel, folder: str, path: str, relative: str) -> None:
    try:
        length = len(relative.encode())
    except UnicodeEncodeError:
        raise OutputsError(f"the name of {relative!r} in context.{folder} is not UTF-8") from None
    if length > MAX_PATH_BYTES:
        raise OutputsError(f"the path of {relative!r} in context.{folder} is longer than {MAX_PATH_BYTES} bytes")
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        if stat.S_ISREG(status.st_mode):
            channel.send_file(folder, relative, fd, status.st_size)
    finally:
        os.close(fd)
