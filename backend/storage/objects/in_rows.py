"""Results stored in the rows of their runs, read as if they were objects.

A run shows a result of up to 262,144 bytes from its row. Storing these bytes again as an object would take a folder, a
file and three syncs: 1.1 ms of processor time of a one-step run's 13, and the wait for the disk. So if one process has
database and objects to itself, the key of such a `result.json` stands for the row's column, and is cleared with the
row. A result that its run does not show, that is still to be swept, or that is promoted before its run is completed, is
stored as an object.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from sqlalchemy import bindparam, select

from backend.storage.database import Database
from backend.storage.object_keys import result_row_key, run_of, run_prefix
from backend.storage.objects.interface import PART_BYTES, ObjectReader, ObjectStore, StoredObject
from backend.storage.statements import ScalarQuery
from backend.storage.tables.runs import runs

_RESULT: Final = ScalarQuery[str](
    select(runs.c.result).where(runs.c.run_id == bindparam("of_run_id"), runs.c.result.is_not(None))
)


class ObjectsWithRows:
    """Adds the results in rows to a store, for reading only; see `ObjectStore`."""

    def __init__(self, objects: ObjectStore, database: Database) -> None:
        self._objects = objects
        self._database = database

    def put_file(self, key: str, source: Path) -> StoredObject:
        """Stores a copy of a file."""
        return self._objects.put_file(key, source)

    def put_bytes(self, key: str, data: bytes) -> StoredObject:
        """Stores bytes."""
        return self._objects.put_bytes(key, data)

    def open_range(self, key: str, offset: int, length: int) -> ObjectReader:
        """Opens an object, or a result in its row."""
        if not _is_row_key(key):
            return self._objects.open_range(key, offset, length)
        content = self._result(run_of(key))
        if content is None:
            raise KeyError(key)
        if len(content) < offset + length:
            raise EOFError(f"the object {key} ends before byte {offset + length}")
        return _Range(content[offset : offset + length])

    def sizes(self, prefix: str) -> dict[str, int]:
        """Returns the sizes of objects below a prefix; for a run's prefix, with the result in its row."""
        sizes = self._objects.sizes(prefix)
        run_id = run_of(prefix)
        content = self._result(run_id) if prefix == run_prefix(run_id) else None
        if content is not None:
            sizes[result_row_key(run_id)] = len(content)
        return sizes

    def delete(self, key: str) -> None:
        """Removes an object; a result in a row goes with the row."""
        if not _is_row_key(key):
            self._objects.delete(key)

    def delete_prefix(self, prefix: str) -> None:
        """Removes every object below a prefix."""
        self._objects.delete_prefix(prefix)

    def delete_chosen(self, prefix: str, chosen: Callable[[str], bool]) -> None:
        """Removes chosen objects below a prefix."""
        self._objects.delete_chosen(prefix, chosen)

    def _result(self, run_id: str) -> bytes | None:
        text = self._database.read(lambda tx: tx.scalar(_RESULT, of_run_id=run_id))
        return None if text is None else text.encode()


class _Range(Iterator[bytes]):
    """Bytes already in memory, as an `ObjectReader`."""

    def __init__(self, data: bytes) -> None:
        self._left = data

    def __next__(self) -> bytes:
        part, self._left = self._left[:PART_BYTES], self._left[PART_BYTES:]
        if not part:
            raise StopIteration
        return part

    def close(self) -> None:
        """Drops the bytes not yet read."""
        self._left = b""


def _is_row_key(key: str) -> bool:
    return key == result_row_key(run_of(key))
