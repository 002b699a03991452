"""The files of a run that are published: outputs that an entry of `publish` chooses."""

import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import Any, BinaryIO

from backend.outputs import sql as outputs_sql
from backend.storage.database import Database
from backend.storage.objects import ObjectReader, ObjectStore
from backend.storage.tables.outputs import OutputRow
from backend.workflows.manifests.endings import RDF_ENDINGS, ROW_ENDINGS


@dataclass(frozen=True, slots=True)
class PublishFile:
    """An output file of a step; `path` is `<step>/<relative path>`, and `open` may be called often."""

    path: str
    open: Callable[[], BinaryIO]


Source = Callable[[str], Iterable[PublishFile]]
"""Returns the files of a run, by its id.

Raises:
    GraphUnavailableError: they cannot be read now.
"""


def stored_outputs(database: Database, objects: ObjectStore) -> Source:
    """Returns a source of the outputs of steps."""

    def files(run_id: str) -> Iterable[PublishFile]:
        rows = database.read(lambda tx: outputs_sql.outputs_of(tx, run_id))
        return [PublishFile(row.path, partial(_open, objects, row)) for row in rows if row.step is not None]

    return files


def is_chosen(path: str, entry: Mapping[str, Any]) -> bool:
    """Returns whether an entry of `publish` chooses the file of that path."""
    step, _, inner = path.partition("/")
    if entry["steps"] is not None and step not in entry["steps"]:
        return False
    if entry["files"] is not None and not PurePosixPath(inner).match(entry["files"]):
        return False
    ending = PurePosixPath(path).suffix.lower()
    return ending in RDF_ENDINGS or (ending in ROW_ENDINGS and entry["mapping"] is not None)


def _open(objects: ObjectStore, output: OutputRow) -> BinaryIO:
    return io.BufferedReader(_Stream(objects.open_range(output.object_key, 0, output.size_bytes)))


class _Stream(io.RawIOBase):
    """An object's bytes as a file."""

    def __init__(self, reader: ObjectReader) -> None:
        self._reader = reader
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._rest = self._rest or next(self._reader, b"")
        part = self._rest[: len(buffer)]
        buffer[: len(part)] = part
        self._rest = self._rest[len(part) :]
        return len(part)

    def close(self) -> None:
        self._reader.close()
        super().close()
