"""Objects as files, the default of an embedded deployment."""

import contextlib
import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from backend.storage.data_files import sync_folder
from backend.storage.objects.interface import (
    PART_BYTES,
    ContentDigest,
    ListedObject,
    ObjectReader,
    StoredObject,
    checked_key,
    folder_key,
    is_key,
)

_LEFT_BEHIND_SECONDS: Final = 86_400.0


class FolderObjects:
    """Objects as files below one folder, which one process owns, or several if it is `shared`."""

    def __init__(self, root: Path, *, shared: bool = False) -> None:
        self._objects = root
        self._incoming = root / ".incoming"
        self._incoming.mkdir(parents=True, exist_ok=True)
        # Files that a crash left half written belong to no run, so no erasure would find them. Recent ones may be
        # another process's.
        newest = time.time() - _LEFT_BEHIND_SECONDS if shared else math.inf
        for leftover in self._incoming.iterdir():
            with contextlib.suppress(FileNotFoundError):
                if leftover.stat().st_mtime < newest:
                    leftover.unlink()

    def put_file(self, key: str, source: Path) -> StoredObject:
        """Stores a copy of a file; see `ObjectStore`."""
        with source.open("rb") as file:
            return self._put(key, _parts(file))

    def put_bytes(self, key: str, data: bytes) -> StoredObject:
        """Stores bytes; see `ObjectStore`."""
        return self._put(key, (data,))

    def open_range(self, key: str, offset: int, length: int) -> ObjectReader:
        """Opens an object to read a range of it; see `ObjectStore`."""
        try:
            file = self._path(key).open("rb")
        except FileNotFoundError:
            raise KeyError(key) from None
        if os.fstat(file.fileno()).st_size < offset + length:
            file.close()
            raise EOFError(f"the object {key} ends before byte {offset + length}")
        return _Range(file, offset, length)

    def sizes(self, prefix: str) -> dict[str, int]:
        """Returns the sizes of objects below a prefix; see `ObjectStore`."""
        return sizes_below(self._objects, prefix)

    def delete(self, key: str) -> None:
        """Removes an object; see `ObjectStore`."""
        path = self._path(key)
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
            sync_folder(path.parent)

    def delete_prefix(self, prefix: str) -> None:
        """Removes every object below a prefix; see `ObjectStore`."""
        folder = self._objects / folder_key(prefix)
        if not folder.exists():
            return
        while folder.exists():
            # Another removal of the same objects may be at work beside this one.
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(folder)
        sync_folder(folder.parent)

    def delete_chosen(self, prefix: str, chosen: Callable[[str], bool]) -> None:
        """Removes chosen objects below a prefix; see `ObjectStore`."""
        changed: set[Path] = set()
        for path in (self._objects / folder_key(prefix)).rglob("*"):
            if path.is_file() and chosen(path.relative_to(self._objects).as_posix()):
                path.unlink(missing_ok=True)
                changed.add(path.parent)
        for folder in changed:
            sync_folder(folder)

    def _path(self, key: str) -> Path:
        return self._objects / checked_key(key)

    def _put(self, key: str, parts: Iterable[bytes]) -> StoredObject:
        """Writes beside the objects, then moves: a reader sees the whole object or none.

        File and folders are synced behind the move, so that a journaling file system writes its journal once, not
        three times; this halves the time. No row names an object that a crash leaves before the return.
        """
        path = self._path(key)
        digest = ContentDigest()
        handle, name = tempfile.mkstemp(dir=self._incoming)
        written = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                for part in parts:
                    digest.update(part)
                    file.write(part)
                file.flush()
                replaces = path.exists()
                if replaces:
                    # A crash leaves the old content or the new.
                    os.fsync(file.fileno())
                # A call beside this one may have made the folder just now, and not synced it yet.
                changed = [path.parent, *self._make_folder(path.parent), path.parent.parent]
                written = written.replace(path)
                if not replaces:
                    os.fsync(file.fileno())
        except BaseException:
            written.unlink(missing_ok=True)
            raise
        for folder in dict.fromkeys(changed):
            sync_folder(folder)
        return digest.stored()

    def _make_folder(self, folder: Path) -> list[Path]:
        """Makes a folder and its parents; returns the folders to be synced."""
        if folder.is_dir():
            return []
        changed = self._make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        return [folder.parent, *changed]


class _Range(Iterator[bytes]):
    """Bytes of an open file; closing it, or reading to its end, closes the file."""

    def __init__(self, file: BinaryIO, offset: int, length: int) -> None:
        self._file = file
        self._left = length
        file.seek(offset)

    def __next__(self) -> bytes:
        part = self._file.read(min(PART_BYTES, self._left)) if self._left else b""
        if not part:
            self.close()
            if self._left:
                raise EOFError(f"the object ended {self._left} bytes early")
            raise StopIteration
        self._left -= len(part)
        return part

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def __del__(self) -> None:
        self._file.close()


def sizes_below(root: Path, prefix: str) -> dict[str, int]:
    """Returns the sizes of the objects directly below a prefix, by key."""
    sizes: dict[str, int] = {}
    with contextlib.suppress(FileNotFoundError), os.scandir(root / folder_key(prefix)) as found:
        for entry in found:
            # Another process may remove the file meanwhile.
            with contextlib.suppress(FileNotFoundError):
                if entry.is_file():
                    sizes[prefix + entry.name] = entry.stat().st_size
    return sizes


def listed_below(root: Path, prefix: str) -> Iterator[ListedObject]:
    """Yields the objects below a prefix, also in its folders, folder by folder."""
    for folder, _, names in os.walk(root / folder_key(prefix)):
        for name in names:
            path = Path(folder, name)
            key = path.relative_to(root).as_posix()
            with contextlib.suppress(FileNotFoundError):
                if is_key(key):
                    status = path.stat()
                    yield ListedObject(key, status.st_size, status.st_mtime)


def _parts(file: BinaryIO) -> Iterator[bytes]:
    while part := file.read(PART_BYTES):
        yield part
