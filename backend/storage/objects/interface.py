"""The interface of every object store."""

import hashlib
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple, Protocol
from zlib import crc32

PART_BYTES: Final = 256 * 1024

_KEY: Final = re.compile(r"[a-z0-9_-]+(/[a-z0-9_-]+)*")


class ObjectStoreError(OSError):
    """An operation of the object store failed; the message says in one sentence which, and why."""


class StoredObject(NamedTuple):
    """Size and checksums of a stored object; `sha256` is in hexadecimal."""

    size_bytes: int
    sha256: str
    crc32: int


class ListedObject(NamedTuple):
    """An object as a listing of the store shows it; `written_at` is in seconds since 1970."""

    key: str
    size_bytes: int
    written_at: float


class ContentDigest:
    """Size and checksums of content that is stored part by part."""

    def __init__(self) -> None:
        self._size = 0
        self._sha256 = hashlib.sha256()
        self._crc32 = 0

    def update(self, part: bytes) -> None:
        """Adds the next part."""
        self._size += len(part)
        self._sha256.update(part)
        self._crc32 = crc32(part, self._crc32)

    def stored(self) -> StoredObject:
        """Returns size and checksums of all parts."""
        return StoredObject(self._size, self._sha256.hexdigest(), self._crc32)


class ObjectReader(Protocol):
    """Bytes of an opened object, in parts of at most 256 KiB; closing it ends the read.

    An object that ends before the range does is an EOFError, a store that fails while it is read an OSError.
    """

    def __iter__(self) -> Iterator[bytes]:
        """Returns itself."""

    def __next__(self) -> bytes:
        """Returns the next part."""

    def close(self) -> None:
        """Ends the read, and closes its file or connection."""


class ObjectStore(Protocol):
    """Keeps objects; keys are those of `backend.storage.object_keys` and never hold a caller's text.

    An object is seen whole or not at all, and storing it again is harmless. Failures are OSErrors.
    """

    def put_file(self, key: str, source: Path) -> StoredObject:
        """Stores a copy of a file, durable on return."""

    def put_bytes(self, key: str, data: bytes) -> StoredObject:
        """Stores bytes, durable on return."""

    def open_range(self, key: str, offset: int, length: int) -> ObjectReader:
        """Opens an object to read `length` bytes from `offset`.

        Raises:
            KeyError: there is no such object.
            EOFError: it ends before the range does.
        """

    def sizes(self, prefix: str) -> dict[str, int]:
        """Returns the sizes in bytes of the objects below `prefix`, without those in its folders, by key."""

    def delete(self, key: str) -> None:
        """Removes an object, if it exists."""

    def delete_prefix(self, prefix: str) -> None:
        """Removes every object below `prefix`, a key followed by `/`."""

    def delete_chosen(self, prefix: str, chosen: Callable[[str], bool]) -> None:
        """Removes the objects below `prefix` whose keys are `chosen`, page by page."""


def is_key(text: str) -> bool:
    """Returns whether a text has the form of a key."""
    return _KEY.fullmatch(text) is not None


def checked_key(key: str) -> str:
    """Returns a key that is well-formed.

    Raises:
        ValueError: it is no key of the service.
    """
    if not is_key(key):
        raise ValueError(f"not a key: {key!r}")
    return key


def folder_key(prefix: str) -> str:
    """Returns a prefix without its `/`.

    Raises:
        ValueError: it is no prefix of the service.
    """
    if not prefix.endswith("/"):
        raise ValueError(f"not a prefix: {prefix!r}")
    return checked_key(prefix[:-1])


def copy_to_file(
    objects: ObjectStore, key: str, size_bytes: int, target: Path, halt: threading.Event | None = None
) -> None:
    """Copies an object into a file; ends soon after `halt` is set.

    Raises:
        OSError, KeyError, EOFError: as `ObjectStore.open_range` and `ObjectReader`; or the file cannot be written.
        InterruptedError: `halt` was set.
    """
    with closing(objects.open_range(key, 0, size_bytes)) as reader, target.open("wb") as file:
        for block in reader:
            if halt is not None and halt.is_set():
                raise InterruptedError
            file.write(block)
