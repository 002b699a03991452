"""Stored bytes of uploads: free room for them on disks, their reading, and their removal."""

import errno
import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import orjson

from backend.common import metrics
from backend.common.clock import Clock
from backend.services.uploads import sql
from backend.services.uploads.rules import PART_BYTES, reserved_bytes
from backend.storage.database import Database
from backend.storage.object_keys import upload_members_key, upload_part_key, upload_prefix
from backend.storage.objects import ObjectStore
from backend.storage.tables.files import UploadFileRow

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class DiskFullError(Exception):
    """The disk has no room for the bytes to be stored."""


def free_bytes(folders: Sequence[Path]) -> int:
    """Returns the bytes that may be stored below each of these folders, which may not exist yet."""
    return min(_free_bytes(folder) for folder in folders)


@contextmanager
def raising_disk_full() -> Iterator[None]:
    """Raises DiskFullError in place of the OSError of a write to a full disk.

    Raises:
        DiskFullError: the disk is full.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise DiskFullError from error
        raise


def _free_bytes(folder: Path) -> int:
    usage = shutil.disk_usage(next(each for each in (folder, *folder.parents) if each.exists()))
    return max(0, usage.free - reserved_bytes(usage.total))


def members_of(file: UploadFileRow) -> list[tuple[str, int]]:
    """Returns path and size of each file that an uploaded file gives a run: itself, or the members of a zip."""
    if file.members is None:
        return [(file.name, file.size_bytes)]
    return [(path, size) for path, size in orjson.loads(file.members)]


def contents(objects: ObjectStore, file: UploadFileRow) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yields path and content of each file that an uploaded file gives a run; read each content to its end.

    Raises, also while a content is read:
        KeyError, OSError, EOFError: as `ObjectStore.open_range` and `ObjectReader`.
    """
    if file.members is None:
        yield file.name, sent_bytes(objects, file)
        return
    offset = 0
    for path, size in members_of(file):
        yield path, _range(objects, upload_members_key(file.upload_id, file.number), offset, size)
        offset += size


def sent_bytes(objects: ObjectStore, file: UploadFileRow) -> Iterator[bytes]:
    """Yields the uploaded bytes of a file, zips not expanded; raises as `contents`."""
    for offset in range(0, file.size_bytes, PART_BYTES):
        size = min(PART_BYTES, file.size_bytes - offset)
        yield from _range(objects, upload_part_key(file.upload_id, file.number, offset, size), 0, size)


def _range(objects: ObjectStore, key: str, offset: int, size: int) -> Iterator[bytes]:
    if size:
        with closing(objects.open_range(key, offset, size)) as reader:
            yield from reader


_LOG = logging.getLogger(__name__)
_BATCH: Final = 100


class UploadRemovals:
    """Removes expired uploads, in the calling thread."""

    def __init__(self, database: Database, objects: ObjectStore, clock: Clock) -> None:
        self._database = database
        self._objects = objects
        self._clock = clock

    def round(self, halted: Callable[[], bool]) -> None:
        """Removes all uploads that are due; a failed removal is logged and stays due."""
        now = self._clock()
        failed: set[str] = set()
        while due := [each for each in self._due(now, _BATCH + len(failed)) if each not in failed]:
            for upload_id in due:
                if halted():
                    return
                try:
                    self._remove(upload_id, now)
                except Exception:  # noqa: BLE001 - no caller can reach the upload, and it stays due
                    failed.add(upload_id)
                    metrics.REMOVAL_FAILURES.add()
                    _LOG.exception("The removal of upload %s failed; it stays pending", upload_id)

    def _due(self, now: int, most: int) -> list[str]:
        return self._database.read(lambda tx: sql.expired(tx, now, most))

    def _remove(self, upload_id: str, now: int) -> None:
        # From this commit on no start takes the upload, and no part of it is stored.
        if self._database.write(lambda tx: sql.expire(tx, upload_id, now)):
            self._objects.delete_prefix(upload_prefix(upload_id))
            self._database.write(lambda tx: sql.remove(tx, upload_id))
