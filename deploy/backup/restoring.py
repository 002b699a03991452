"""Restores a backup into a data folder that no service uses.

All files are unpacked below the folder and checked before any is put in place. A marker file exists there from the
beginning to the end of a restore, and a service refuses a folder with it. Another restore removes the unpacked files of
an interrupted one, and moves aside the files that it had put in place or not yet moved.
"""

import hashlib
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import BinaryIO, Final

from backend.common.clock import system_clock
from backend.storage.data_files import sync_folder
from backend.storage.factory import DATABASE_FILE, LOCK_FILE, RESTORING_FILE, DataFolder, DataFolderError
from deploy.backup.archive import (
    DATABASE,
    DIGESTS,
    MANIFEST,
    OBJECTS,
    BackupError,
    BackupManifest,
    beginning,
    is_object,
    members,
    parts,
    read_digest_line,
    read_manifest,
)
from deploy.backup.object_lists import UnpackedFiles
from deploy.backup.snapshot import require_known, require_sound, schema_of

_UNPACKED: Final = ".workflow-api-restore"
_NO_CONTENT: Final = frozenset({LOCK_FILE, RESTORING_FILE, _UNPACKED, "lost+found"})
_MOST_MANIFEST_BYTES: Final = 1_000_000
_PUBLISH_AGAIN: Final = """
UPDATE publications SET state = 'pending', attempts = 0, requested_at = :now, next_attempt_at = :now
WHERE state IN ('landed', 'kept') AND EXISTS (
    SELECT 1 FROM resource_versions AS graph WHERE graph.resource_id = publications.graph_id
    AND graph.version = publications.graph_version
    AND coalesce(json_extract(graph.definition, '$.store'), 'folder') <> 'sparql')
"""
"""SQL that publishes outputs again to graphs in folders, which are no part of a backup."""


@dataclass(frozen=True, slots=True)
class RestoredBackup:
    """A restored backup; `moved_to` is the folder of the former content, if there was any."""

    manifest: BackupManifest
    moved_to: Path | None


def restore_backup(source: BinaryIO, data: Path, *, force: bool) -> RestoredBackup:
    """Restores a backup into an empty folder; with `force` the folder's content is moved into a folder below it.

    Leftovers of an interrupted restore are moved too, with or without `force`.

    Raises:
        BackupError: the backup is damaged or of a later release, or the folder is in use or not empty.
        OSError: the folder cannot be written, as when the disk is full; unpacked files are removed.
    """
    # Read before anything in the folder is changed, because it may be named by mistake.
    _content_to_move(data, force=force)
    with _opened(data):
        present = _content_to_move(data, force=force)
        # After an interruption while files were put in place, only a whole restore removes the marker.
        interrupted = (data / RESTORING_FILE).exists()
        try:
            unpacked = _begin(data)
            manifest = _unpack(source, unpacked)
            _check_database(unpacked / DATABASE, manifest)
        except BaseException:
            _end(data, keep_marker=interrupted)
            raise
        os.sync()
        # Only renames are left. If one fails the marker stays.
        moved_to = _move_aside(data, present)
        for name in (OBJECTS.rstrip("/"), DATABASE):
            if (unpacked / name).exists():
                (unpacked / name).rename(data / name)
        sync_folder(data)
        _end(data, keep_marker=False)
    return RestoredBackup(manifest, moved_to)


def _content_to_move(data: Path, *, force: bool) -> list[Path]:
    """Returns the content that has to be moved aside; raises BackupError if that is not allowed."""
    present = [path for path in data.iterdir() if path.name not in _NO_CONTENT] if data.is_dir() else []
    if present and not force and not (data / RESTORING_FILE).exists():
        raise BackupError(f"{data} is not empty: name another folder, or move its content aside with --force.")
    return present


@contextmanager
def _opened(data: Path) -> Iterator[None]:
    """Locks a data folder; after an error removes the folder and its lock if they were not there before."""
    lock = data / LOCK_FILE
    made = [path for path in (data, *data.parents) if not path.exists()]
    locked_before = lock.exists()
    try:
        folder = DataFolder(data, to_restore=True)
    except DataFolderError as error:
        raise BackupError(str(error)) from None
    with closing(folder):
        try:
            yield
        except BaseException:
            if not locked_before and not (data / RESTORING_FILE).exists():
                # Removed while locked: a process that waits for the lock makes another file.
                lock.unlink(missing_ok=True)
                with suppress(OSError):
                    for path in made:
                        path.rmdir()
            raise


def _begin(data: Path) -> Path:
    """Marks the folder as being restored, and returns an empty folder to unpack in."""
    (data / RESTORING_FILE).touch(mode=0o600)
    unpacked = data / _UNPACKED
    shutil.rmtree(unpacked, ignore_errors=True)
    unpacked.mkdir(mode=0o700)
    sync_folder(data)
    return unpacked


def _end(data: Path, *, keep_marker: bool) -> None:
    shutil.rmtree(data / _UNPACKED, ignore_errors=True)
    if not keep_marker:
        (data / RESTORING_FILE).unlink(missing_ok=True)
    sync_folder(data)


def _unpack(source: BinaryIO, unpacked: Path) -> BackupManifest:
    """Unpacks the files of the backup, and returns its manifest once all of them have their digests."""
    found: dict[str, bytes] = {}
    with closing(UnpackedFiles()) as files:
        for name, content in members(source):
            if name in {DIGESTS, MANIFEST, DATABASE}:
                if name in found:
                    raise BackupError(f"The archive holds {name} twice: it is no backup of this kind.")
                found[name] = b""
            elif not is_object(name) or found:
                raise BackupError(f"The archive holds {name[:200]!r}, which no backup has at this place.")
            if name == MANIFEST:
                found[name] = beginning(content, _MOST_MANIFEST_BYTES)
            else:
                files.add(name, _unpacked_file(content, unpacked / name))
        if found.keys() != {DIGESTS, MANIFEST, DATABASE}:
            raise BackupError("The backup is not whole: its end is missing.")
        manifest = read_manifest(found[MANIFEST])
        _check_files(files, unpacked, manifest)
    return manifest


def _unpacked_file(content: BinaryIO, path: Path) -> str:
    """Writes a file, and returns its SHA-256 in hexadecimal."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    digest = hashlib.sha256()
    # If an object is in the archive twice, the later one counts.
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as file:
        for part in parts(content):
            digest.update(part)
            file.write(part)
    return digest.hexdigest()


def _check_files(files: UnpackedFiles, unpacked: Path, manifest: BackupManifest) -> None:
    """Compares the files with the list of digests, and removes objects that are not listed.

    Raises:
        BackupError: a listed file is missing or has another digest, or the list is not the manifest's.
    """
    listed = unpacked / DIGESTS
    if files.digest(DIGESTS) != manifest.digests_sha256:
        raise BackupError("The list of digests in the backup is damaged.")
    with listed.open("rb") as lines:
        for line in lines:
            sha256, name = read_digest_line(line)
            found = files.digest(name)
            if found != sha256:
                what = "is missing" if found is None else "has another digest than when the backup was made"
                raise BackupError(f"The backup is damaged: {name} {what}.")
            files.mark_listed(name)
    listed.unlink()
    files.mark_listed(DIGESTS)
    for name in files.unlisted():
        if not is_object(name):
            raise BackupError(f"The backup is damaged: {name} is not listed.")
        # The object was removed from the deployment while the backup was made.
        (unpacked / name).unlink()


def _check_database(database: Path, manifest: BackupManifest) -> None:
    """Checks the database, and prepares it for the service that starts with it."""
    try:
        with closing(sqlite3.connect(database, isolation_level=None)) as connection:
            # All files are made durable together, after this.
            connection.execute("PRAGMA synchronous = OFF")
            schema = schema_of(connection)
            require_known(schema)
            if schema != manifest.schema:
                raise BackupError(f"The backup's database has schema {schema}, not {manifest.schema} as its manifest.")
            require_sound(connection)
            if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'publications'").fetchone():
                connection.execute(_PUBLISH_AGAIN, {"now": system_clock()})
    except sqlite3.Error as error:
        raise BackupError(f"The backup's database cannot be used: {error}.") from error


def _move_aside(data: Path, present: list[Path]) -> Path | None:
    if not present:
        return None
    aside = _new_aside(data / f"before-restore-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    # The database is moved first: without it the folder is no deployment any more.
    for path in sorted(present, key=lambda path: not path.name.startswith(DATABASE_FILE)):
        path.rename(aside / path.name)
    sync_folder(aside)
    return aside


def _new_aside(first: Path) -> Path:
    """Makes the folder `first`, with a number after the name if it exists already."""
    for number in count(1):
        aside = first if number == 1 else first.with_name(f"{first.name}-{number}")
        with suppress(FileExistsError):
            aside.mkdir(mode=0o700)
            return aside
    raise AssertionError("numbers do not end")
