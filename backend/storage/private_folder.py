"""Restricts a folder to the service's own user."""

import contextlib
import os
import pwd
import stat
from pathlib import Path
from typing import Final

_OTHERS: Final = 0o077


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
    """Closes the entries of a folder, and so what is below them, to other users.

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
    """Returns what a message calls a user of this machine."""
    try:
        return f"the user {pwd.getpwuid(user).pw_name}"
    except KeyError:
        return f"the user with the id {user}"
