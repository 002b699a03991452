"""Sends the files of the output folder to the worker, and counts the entries that are left out."""

from __future__ import annotations

import os
import stat

from backend.sandbox.inside.channel import note
from backend.sandbox.inside.plain_json import encode
from backend.sandbox.inside.protocol import (
    DEVICE,
    MAX_PATH_BYTES,
    OVER_DIRECTORIES,
    OVER_FILES,
    OVER_LEVELS,
    PIPE,
    SKIPPED,
    SOCKET,
    SYMLINK,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from backend.sandbox.inside.channel import Channel


class OutputsError(Exception):
    """An output whose name the contract does not allow."""


def send_outputs(channel: Channel, root: str, limits: dict[str, int]) -> None:
    """Sends every regular file below `root` within the limits, then the number of skipped entries by kind.

    Files beyond the number of directories are those of the directories that come last by name, each before its own.

    Raises:
        OutputsError: a name is not UTF-8 or too long.
    """
    files = 0
    skipped: dict[str, int] = {}
    for path, unfit in _entries(root, limits):
        kind = OVER_FILES if unfit is None and files == limits["files"] else unfit
        if kind is None:
            files += 1
            _send(channel, os.path.join(root, path), path)  # noqa: PTH118 - names may not be UTF-8
        else:
            skipped[kind] = skipped.get(kind, 0) + 1
    if skipped:
        channel.send(SKIPPED, encode(skipped))


def _entries(root: str, limits: dict[str, int]) -> Iterator[tuple[str, str | None]]:
    """Yields every entry below `root` that is no folder: its path from there, and the kind by which it is left out.

    A folder that is too deep to be listed is yielded itself. The root is one link if it, or what it is in, was replaced
    by one.
    """
    if os.path.realpath(root) != root:
        yield "", SYMLINK
        return
    directories = 0
    folders = [("", 0)]
    while folders:
        folder, level = folders.pop()
        beyond = None
        if level > limits["levels"]:
            beyond = OVER_LEVELS
        elif folder:
            directories += 1
            if directories > limits["directories"]:
                beyond = OVER_DIRECTORIES
        try:
            entries = sorted(os.scandir(os.path.join(root, folder)), key=lambda entry: entry.name)  # noqa: PTH118 - names may not be UTF-8
        except OSError:
            # Its path may exceed the limit of the kernel.
            if beyond != OVER_LEVELS:
                raise
            yield folder, beyond
            continue
        inner = []
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir(follow_symlinks=False):
                inner.append((path, level + 1))
            else:
                yield path, beyond or _kind(entry)
        folders += reversed(inner)


def _kind(entry: os.DirEntry[str]) -> str | None:
    """Returns the kind of an entry that is no regular file, else None."""
    if entry.is_file(follow_symlinks=False):
        return None
    note(f"output {entry.path!r} is not a regular file and was left out")
    mode = entry.stat(follow_symlinks=False).st_mode
    if stat.S_ISLNK(mode):
        return SYMLINK
    if stat.S_ISFIFO(mode):
        return PIPE
    return SOCKET if stat.S_ISSOCK(mode) else DEVICE


def _send(channel: Channel, path: str, relative: str) -> None:
    try:
        length = len(relative.encode())
    except UnicodeEncodeError:
        raise OutputsError(f"the name of the output {relative!r} is not UTF-8") from None
    if length > MAX_PATH_BYTES:
        raise OutputsError(f"the path of the output {relative!r} is longer than {MAX_PATH_BYTES} bytes")
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        if stat.S_ISREG(status.st_mode):
            channel.send_file(relative, fd, status.st_size)
    finally:
        os.close(fd)
