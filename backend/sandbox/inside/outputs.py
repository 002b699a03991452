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

    Raises:
        OutputsError: a name is not UTF-8 or too long.
    """
    outputs = _Outputs(channel, limits)
    for folder, level, entry in _entries(root, limits["levels"]):
        outputs.take(folder, level, entry)
    if outputs.skipped:
        channel.send(SKIPPED, encode(outputs.skipped))


class _Outputs:
    def __init__(self, channel: Channel, limits: dict[str, int]) -> None:
        self._channel = channel
        self._limits = limits
        self._files = 0
        self._directories: set[str] = set()
        self.skipped: dict[str, int] = {}

    def take(self, folder: str, level: int, entry: os.DirEntry[str] | None) -> None:
        """Sends an entry of a folder, or counts it as skipped; None stands for a folder too deep to be listed."""
        kind = None if entry is None else _kind(entry)
        if level > self._limits["levels"]:
            kind = OVER_LEVELS
        if entry is None or kind is not None:
            self._skip(kind or OVER_LEVELS)
            return
        if self._files == self._limits["files"]:
            self._skip(OVER_FILES)
        elif not self._has_room_for(folder):
            self._skip(OVER_DIRECTORIES)
        else:
            self._files += 1
            _send(self._channel, entry.path, f"{folder}/{entry.name}" if folder else entry.name)

    def _has_room_for(self, folder: str) -> bool:
        new = set()
        while folder and folder not in self._directories:
            new.add(folder)
            folder = folder.rpartition("/")[0]
        if len(self._directories) + len(new) > self._limits["directories"]:
            return False
        self._directories |= new
        return True

    def _skip(self, kind: str) -> None:
        self.skipped[kind] = self.skipped.get(kind, 0) + 1


def _entries(root: str, levels: int) -> Iterator[tuple[str, int, os.DirEntry[str] | None]]:
    """Yields every entry below `root` that is no folder, as (folder relative to `root`, its level, entry)."""
    folders = [("", 0)]
    while folders:
        folder, level = folders.pop()
        try:
            entries = sorted(os.scandir(os.path.join(root, folder)), key=lambda entry: entry.name)  # noqa: PTH118 - names may not be UTF-8
        except OSError:
            # Its path may exceed the limit of the kernel.
            if level <= levels:
                raise
            yield folder, level, None
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append((f"{folder}/{entry.name}" if folder else entry.name, level + 1))
            else:
                yield folder, level, entry


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
