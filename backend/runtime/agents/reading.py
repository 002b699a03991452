"""Reads files for an agent that calls a model: bounded, text only, never outside of a folder."""

import codecs
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

MOST_LISTED: Final = 1_000
READ_BYTES: Final = 64 * 1024

NOT_THERE: Final = {"error": "there is no such file"}


def list_files(folders: Mapping[str, Path], prefix: str) -> dict[str, Any]:
    """Returns path and size of regular files whose path begins with `prefix`; a path's first part names its folder."""
    found = sorted(
        (path, size)
        for name, root in folders.items()
        for path, size in _regular_files(root, name)
        if path.startswith(prefix)
    )
    listed = [{"path": path, "size_bytes": size} for path, size in found[:MOST_LISTED]]
    return {"files": listed, "not_listed": len(found) - len(listed)}


def read_file(folders: Mapping[str, Path], path: str, offset: int) -> dict[str, Any]:
    """Returns up to 64 KiB of a text file from a byte offset; see `text_part`."""
    first, _, rest = path.partition("/")
    root = folders.get(first)
    parts = rest.split("/")
    if root is None or not {"", ".", ".."}.isdisjoint(parts) or "\0" in rest or offset < 0:
        return NOT_THERE
    try:
        file = _open(root, parts)
    except (OSError, UnicodeEncodeError):
        return NOT_THERE
    with os.fdopen(file, "rb") as opened:
        size = os.fstat(file).st_size
        # A model may name an offset that no file can have.
        opened.seek(min(offset, size))
        return text_part(opened.read(READ_BYTES), offset, size)


def text_part(data: bytes, offset: int, size: int) -> dict[str, Any]:
    """Returns bytes from an offset of a file as text without half characters, and the offset of what follows."""
    if b"\0" in data:
        return {"error": "this is not a text file", "size_bytes": size}
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    ends = offset + len(data) >= size
    text = decoder.decode(data, final=ends)
    following = offset + len(data) - len(decoder.getstate()[0])
    return {"text": text, "size_bytes": size, "next_offset": None if ends else following}


def _regular_files(root: Path, name: str) -> Iterator[tuple[str, int]]:
    for folder, _, files in os.walk(root):
        for file in files:
            path = Path(folder, file)
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                yield f"{name}/{path.relative_to(root).as_posix()}", status.st_size


def _open(root: Path, parts: list[str]) -> int:
    """Opens a regular file part by part, so that no link on the way is followed.

    Raises:
        OSError: it does not exist, or is a link or another irregular file.
    """
    at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            os.close(at)
            at = inner
        # A pipe would wait for its other end.
        file = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
    finally:
        os.close(at)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise IsADirectoryError(parts[-1])
    return file
