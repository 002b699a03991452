"""Files and folders of the service: durable after a loss of power, locked by one process, closed to other users."""

import contextlib
import fcntl
import os
import pwd
import stat
from pathlib import Path
from typing import Final

_OTHERS: Final = 0o077


def sync_folder(folder: Path) -> None:
    """Writes the list of a folder's files to the disk, and returns once it is there."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def lock_named(path: Path, flags: int, *, wait: bool = False) -> int:
    """Opens a file or folder, locks it, and returns its handle once the lock is on the file that the path names now.

    A file that was removed after it was opened would keep nobody out.

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


class ForeignOwnerError(Exception):
    """A folder or file belongs to another user; the message names both users."""


def make_private(folder: Path) -> None:
    """Makes a folder if it is missing, and closes it to other users.

    Raises:
        ForeignOwnerError: it belongs to another user.
        OSError: it cannot be made or changed.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    about = folder.stat()
    _require_ours(folder, about)
    if about.st_mode & _OTHERS:
        folder.chmod(stat.S_IMODE(about.st_mode) & ~_OTHERS)


def narrow_content(folder: Path, needed: str) -> None:
    """Closes the entries of a folder, and so everything below them, to other users.

    Raises:
        ForeignOwnerError: an entry whose name begins with `needed` belongs to another user.
        OSError: an entry cannot be changed.
    """
    for path in folder.iterdir():
        # Another process may be using the folder; its lock is only taken after this.
        with contextlib.suppress(FileNotFoundError):
            _narrow(path, required=path.name.startswith(needed))


def _narrow(path: Path, *, required: bool) -> None:
    about = path.lstat()
    if required:
        _require_ours(path, about)
    if about.st_mode & _OTHERS and about.st_uid == os.geteuid() and not stat.S_ISLNK(about.st_mode):
        path.chmod(stat.S_IMODE(about.st_mode) & ~_OTHERS)


def _require_ours(path: Path, about: os.stat_result) -> None:
    if about.st_uid != os.geteuid():
        raise ForeignOwnerError(
            f"{path} belongs to {user_name(about.st_uid)}, and the service runs as {user_name(os.geteuid())}: "
            "it keeps data in a folder of its own user only."
        )


def user_name(user: int) -> str:
    """Returns the name of a user of this machine for messages."""
    try:
        return f"the user {pwd.getpwuid(user).pw_name}"
    except KeyError:
        return f"the user with the id {user}"
