"""What uploads leave free on the disks that database and runs write to as well."""

import errno
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from backend.uploads.rules import kept_free

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class NoRoomError(Exception):
    """The disk has no room for what is to be stored."""


def room(folders: Sequence[Path]) -> int:
    """Returns how many bytes may still be stored below all of these folders; they may not exist yet."""
    return min(_room(folder) for folder in folders)


@contextmanager
def full_disk_named() -> Iterator[None]:
    """Names the failure of a write for which a disk has no room.

    Raises:
        NoRoomError: the disk is full.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise NoRoomError from error
        raise


def _room(folder: Path) -> int:
    usage = shutil.disk_usage(next(each for each in (folder, *folder.parents) if each.exists()))
    return max(0, usage.free - kept_free(usage.total))
