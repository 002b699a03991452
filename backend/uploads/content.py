"""Reads the bytes of uploaded files from the object store."""

from collections.abc import Iterator
from contextlib import closing

import orjson

from backend.storage.object_keys import upload_members_key, upload_part_key
from backend.storage.objects import ObjectStore
from backend.storage.tables.uploads import UploadFileRow
from backend.uploads.rules import PART_BYTES


def members_of(file: UploadFileRow) -> list[tuple[str, int]]:
    """Returns path and size of each file that an uploaded one gives a run: itself, or the members of a zip."""
    if file.members is None:
        return [(file.name, file.size_bytes)]
    return [(path, size) for path, size in orjson.loads(file.members)]


def contents(objects: ObjectStore, file: UploadFileRow) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yields the path and the content of each file that an uploaded one gives a run; each must be read to its end.

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
    """Yields the bytes of a file as they were sent; raises as `contents`."""
    for offset in range(0, file.size_bytes, PART_BYTES):
        size = min(PART_BYTES, file.size_bytes - offset)
        yield from _range(objects, upload_part_key(file.upload_id, file.number, offset, size), 0, size)


def _range(objects: ObjectStore, key: str, offset: int, size: int) -> Iterator[bytes]:
    if size:
        with closing(objects.open_range(key, offset, size)) as reader:
            yield from reader
