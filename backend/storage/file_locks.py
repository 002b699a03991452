"""Locks of files and folders that other processes may remove."""

import fcntl
import os
from pathlib import Path


def lock_named(path: Path, flags: int, *, wait: bool = False) -> int:
    """Opens a file or folder, locks it, and returns its handle once the lock is on what the path names.

    One that was removed after it was opened would keep nobody out.

    Raises:
        BlockingIOError: another process holds the lock, and this one does not wait.
        OSError: it cannot be opened.
    """
    while True:
        handle = os.open(path, flags | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _named(path, handle):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _named(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False
