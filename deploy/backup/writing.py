"""Makes a backup of a data folder, beside the service that uses it.

The service is not involved. Objects never change, and each is stored before a row names it, so most are copied first.
Then the database is copied, and then the newer objects that the copy names. If an object was removed in between, as by
an erasure, the database is copied once more and no longer names it. So a backup is the state at the moment of the last
copy, with every object of that state.
"""

import errno
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC
from importlib import metadata
from pathlib import Path
from typing import BinaryIO, Final

from backend.storage.data_files import sync_folder
from backend.storage.factory import RESTORING_FILE
from deploy.backup.archive import (
    DATABASE,
    DIGESTS,
    FORMAT,
    MANIFEST,
    OBJECTS,
    ArchiveWriter,
    BackupError,
    BackupManifest,
    Sink,
    digest_line,
)
from deploy.backup.object_lists import NamedObject, ObjectLists
from deploy.backup.snapshot import Snapshot, reading, scratch_folder, take_snapshot

_SAME_ROUNDS: Final = 3
"""Copies of the database that all name a missing object before the object counts as lost."""
_MOST_ROUNDS: Final = 100
"""Most copies of the database while objects that it names keep being removed."""
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
"""Errors of file systems without hard links, such as exFAT."""


@dataclass(frozen=True, slots=True)
class Source:
    """Source of a backup: a data folder, and the folder of its objects, None if they are in a bucket."""

    data: Path
    objects: Path | None


@dataclass(frozen=True, slots=True)
class Backup:
    """A written backup: its manifest, and some keys of objects that are lost or damaged."""

    manifest: BackupManifest
    absent: tuple[str, ...]


def write_backup(source: Source, sink: Sink, scratch: Path) -> Backup:
    """Writes a backup to `sink`; a temporary copy of the database is below `scratch`.

    Raises:
        BackupError: the data folder cannot be backed up; the message says why.
        OSError: the sink failed.
    """
    if (source.data / RESTORING_FILE).exists():
        raise BackupError(f"{source.data} has half of a backup: `workflow-api restore` it again.")
    with (
        reading(source.data / DATABASE) as live,
        scratch_folder(scratch) as folder,
        ObjectLists() as lists,
        ArchiveWriter(sink) as archive,
    ):
        if source.objects is not None:
            lists.name(live)
            for _ in _absent(archive, lists, source.objects):
                # The object was removed since it was listed.
                pass
        snapshot, absent = _matching_snapshot(archive, lists, source.objects, live, folder)
        with closing(snapshot.file):
            return _finished(archive, lists, source, snapshot, absent, folder)


def _matching_snapshot(
    archive: ArchiveWriter, lists: ObjectLists, objects: Path | None, live: sqlite3.Connection, folder: Path
) -> tuple[Snapshot, list[str]]:
    """Returns a copy of the database whose objects are all in the archive, except lost ones, with their keys."""
    before: list[set[str]] = []
    for _ in range(_MOST_ROUNDS):
        snapshot = _snapshot(live, folder, lists if objects is not None else None)
        absent = set() if objects is None else set(_absent(archive, lists, objects))
        before = [*before, absent][-_SAME_ROUNDS:]
        if not absent or (len(before) == _SAME_ROUNDS and all(each == absent for each in before)):
            return snapshot, sorted(absent)
        snapshot.file.close()
    raise BackupError("Data is erased faster than the database can be copied; try again when fewer runs are erased.")


def _snapshot(live: sqlite3.Connection, folder: Path, lists: ObjectLists | None) -> Snapshot:
    try:
        return take_snapshot(live, folder, None if lists is None else lists.name)
    except sqlite3.Error as error:
        raise BackupError(f"The database cannot be copied: {error}.") from error


def _absent(archive: ArchiveWriter, lists: ObjectLists, objects: Path) -> Iterator[str]:
    """Copies every named object that is not copied yet; yields keys of missing and damaged ones."""
    for named in lists.to_copy():
        if not _copied(archive, lists, objects, named):
            yield named.key


def _copied(archive: ArchiveWriter, lists: ObjectLists, objects: Path, named: NamedObject) -> bool:
    try:
        file = (objects / named.key).open("rb")
    except FileNotFoundError:
        return False
    with file:
        size = os.fstat(file.fileno()).st_size
        sha256 = archive.add(OBJECTS + named.key, file, size)
    lists.add_copied(named.key, size, sha256)
    return size == named.size and named.sha256 in {None, sha256}


def _finished(
    archive: ArchiveWriter, lists: ObjectLists, source: Source, snapshot: Snapshot, absent: list[str], folder: Path
) -> Backup:
    with tempfile.TemporaryFile(dir=folder) as digests:
        size = os.fstat(snapshot.file.fileno()).st_size
        digests.write(digest_line(archive.add(DATABASE, snapshot.file, size), DATABASE))
        count = total = 0
        for each in lists.copied():
            digests.write(digest_line(str(each.sha256), OBJECTS + each.key))
            count += 1
            total += each.size
        listed = digests.tell()
        digests.seek(0)
        digest = archive.add(DIGESTS, digests, listed)
    manifest = BackupManifest(
        format=FORMAT,
        release=metadata.version("workflow-api"),
        schema=snapshot.schema,
        deployment_id=snapshot.deployment_id,
        taken_at=snapshot.taken_at.astimezone(UTC).isoformat(timespec="milliseconds"),
        objects_store="s3" if source.objects is None else "folder",
        objects=count,
        object_bytes=total,
        runs=snapshot.runs,
        absent_objects=len(absent),
        digests_sha256=digest,
    )
    archive.add_bytes(MANIFEST, manifest.to_json())
    archive.close()
    return Backup(manifest, tuple(absent[:10]))


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Opens a new file of mode 0600 that gets its name once the block ends without an error and it is durable.

    Raises:
        BackupError: there is such a file already, or none can be made there.
    """
    if os.path.lexists(path):
        raise BackupError(f"{path} exists already.")
    parent = path.absolute().parent
    with ExitStack() as opened:
        try:
            # The next backup removes leftovers of a killed process in this folder.
            unfinished = opened.enter_context(scratch_folder(parent)) / path.name
            handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise BackupError(f"{path} cannot be written: {error.strerror}.") from None
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(handle)
        try:
            _name(unfinished, path)
        except FileExistsError:
            raise BackupError(f"{path} exists already: it was made meanwhile, and is kept.") from None
        sync_folder(parent)


def _name(unfinished: Path, path: Path) -> None:
    """Gives a file its name; raises FileExistsError if the name is taken."""
    try:
        path.hardlink_to(unfinished)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # An empty file takes the name first, so that only it is overwritten.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        unfinished.replace(path)
