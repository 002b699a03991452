"""What of a run is published: the files of its outputs that an entry of `publish` chooses, read as triples."""

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from backend.graphs.graph import GraphRefusedError
from backend.graphs.rdf import read_rdf
from backend.graphs.rows import read_rows
from backend.outputs import store as outputs_store
from backend.storage.database import Database
from backend.storage.objects import ObjectReader, ObjectStore
from backend.workflows.manifests.publishing import RDF_ENDINGS, ROW_ENDINGS

if TYPE_CHECKING:
    from pyoxigraph import Triple

MOST_TRIPLES: Final = 1_000_000
MOST_CHARACTERS: Final = 256_000_000
"""Of all triples as N-Triples: a store may hold as much in memory."""


@dataclass(frozen=True, slots=True)
class PublishFile:
    """A file that a step left; `path` is `<step>/<relative path>`, and `open` may be called often."""

    path: str
    open: Callable[[], BinaryIO]


Source = Callable[[str], Iterable[PublishFile]]
"""Gives the files of a run, by its id.

Raises:
    GraphUnavailableError: they cannot be read now.
"""


def stored_outputs(database: Database, objects: ObjectStore) -> Source:
    """The outputs that a run's steps left."""

    def files(run_id: str) -> Iterable[PublishFile]:
        rows = database.read(lambda tx: outputs_store.outputs_of(tx, run_id))
        return [PublishFile(row.path, partial(_open, objects, row)) for row in rows if row.step is not None]

    return files


def triples_of(files: Iterable[PublishFile], entry: Mapping[str, Any], base_iri: str | None) -> "Iterator[Triple]":
    """The triples of every file that the entry chooses.

    Raises:
        GraphRefusedError: a file is malformed, or there is too much; the message names the file.
    """
    count = size = 0
    for file in files:
        ending = PurePosixPath(file.path).suffix.lower()
        if not _chosen(file.path, ending, entry):
            continue
        try:
            with file.open() as opened:
                for triple in _triples(opened, ending, entry, base_iri):
                    count += 1
                    size += len(str(triple))
                    _check_bounds(count, size)
                    yield triple
        except GraphRefusedError as error:
            raise GraphRefusedError(f"'{file.path}': {error}") from error


def _check_bounds(count: int, size: int) -> None:
    if count > MOST_TRIPLES:
        raise GraphRefusedError(f"with it there are more than {MOST_TRIPLES:,} triples")
    if size > MOST_CHARACTERS:
        raise GraphRefusedError(f"with it the triples have more than {MOST_CHARACTERS:,} characters")


def _chosen(path: str, ending: str, entry: Mapping[str, Any]) -> bool:
    step, _, inner = path.partition("/")
    if entry["steps"] is not None and step not in entry["steps"]:
        return False
    if entry["files"] is not None and not PurePosixPath(inner).match(entry["files"]):
        return False
    return ending in RDF_ENDINGS or (ending in ROW_ENDINGS and entry["mapping"] is not None)


def _triples(file: BinaryIO, ending: str, entry: Mapping[str, Any], base_iri: str | None) -> "Iterator[Triple]":
    if ending in ROW_ENDINGS:
        return read_rows(file, ending, entry["mapping"])
    return read_rdf(file, ending, base_iri)


def _open(objects: ObjectStore, output: Any) -> BinaryIO:
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
