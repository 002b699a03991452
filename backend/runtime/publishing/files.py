"""Chooses the files of a run that an entry of `publish` names, and parses them into triples in confined processes."""

import io
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from tempfile import TemporaryFile
from typing import IO, Any, BinaryIO, Final

from backend.common.json_text import JsonMapping, JsonObject
from backend.isolation.confined import ConfinedError, ConfinedPool, FailureKind
from backend.resources.graphs.graph import GraphRefusedError, GraphUnavailableError
from backend.resources.graphs.triple_spool import TripleSpool
from backend.services.outputs import sql as outputs_sql
from backend.services.workflows.manifests.names import RDF_ENDINGS, ROW_ENDINGS
from backend.settings import JobLimits
from backend.storage.database import Database
from backend.storage.objects import ObjectReader, ObjectStore
from backend.storage.tables.files import OutputRow


@dataclass(frozen=True, slots=True)
class PublishFile:
    """An output file of a step; `path` is `<step>/<relative path>`, and `open` may be called often."""

    path: str
    open: Callable[[], BinaryIO]


FileSource = Callable[[str], Iterable[PublishFile]]
"""Function from a run's id to the files of the run.

Raises:
    GraphUnavailableError: the files cannot be read now.
"""


def stored_outputs(database: Database, objects: ObjectStore) -> FileSource:
    """Makes a FileSource that reads the stored outputs of steps."""

    def files(run_id: str) -> Iterable[PublishFile]:
        rows = database.read(lambda tx: outputs_sql.outputs_of(tx, run_id))
        return [PublishFile(row.path, partial(_open, objects, row)) for row in rows if row.step is not None]

    return files


def is_chosen(path: str, entry: JsonMapping) -> bool:
    """Returns whether an entry of `publish` chooses the file at a path."""
    step, _, inner = path.partition("/")
    if entry["steps"] is not None and step not in entry["steps"]:
        return False
    if entry["files"] is not None and not PurePosixPath(inner).match(entry["files"]):
        return False
    ending = PurePosixPath(path).suffix.lower()
    return ending in RDF_ENDINGS or (ending in ROW_ENDINGS and entry["mapping"] is not None)


def _open(objects: ObjectStore, output: OutputRow) -> BinaryIO:
    return io.BufferedReader(_ObjectStream(objects.open_range(output.object_key, 0, output.size_bytes)))


class _ObjectStream(io.RawIOBase):
    """A stored object as a raw binary stream."""

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


MAX_TRIPLES: Final = 1_000_000
MAX_CHARACTERS: Final = 256_000_000
"""Most characters of all triples as N-Triples, which a store may hold in memory."""

_PROGRAM: Final = "backend.resources.graphs.parse_program"
_OVER_LIMIT: Final = frozenset({FailureKind.DEADLINE, FailureKind.MEMORY, FailureKind.DIED})
_BLOCK_BYTES: Final = 256 * 1024


@dataclass(slots=True)
class _Publication:
    """One publication whose files are being parsed, and the triples and characters left of its limits."""

    spool: TripleSpool
    entry: JsonMapping
    base_iri: str | None
    owner: str
    halt: threading.Event
    triples: int
    characters: int

    def arguments(self, path: str) -> JsonObject:
        """Returns the program's arguments for a file."""
        ending = PurePosixPath(path).suffix.lower()
        return {
            "ending": ending,
            "mapping": self.entry["mapping"] if ending in ROW_ENDINGS else None,
            "base_iri": self.base_iri,
            "triples": self.triples,
            "characters": self.characters,
            "most_triples": MAX_TRIPLES,
            "most_characters": MAX_CHARACTERS,
        }

    def count(self, answer: object) -> None:
        """Counts the triples of a process's answer, which is checked because the process has read untrusted files."""
        match answer:
            case {"triples": int(triples), "characters": int(characters)}:
                if 0 <= triples <= self.triples and 0 <= characters <= self.characters:
                    self.triples -= triples
                    self.characters -= characters
                    return
        raise ConfinedError(FailureKind.FAILED, "something else than triples was read from it")


class FileParser:
    """Parses files into triples, round robin by API key. Thread-safe; each call blocks until its files are parsed.

    Args:
        limits: The bounds of parsing one file.
        folder: The folder of unnamed copies of the files being parsed.
    """

    def __init__(self, limits: JobLimits, folder: Path) -> None:
        self._limits = limits
        self._folder = folder
        self._pool = ConfinedPool(_PROGRAM, name="publishing", size=limits.processes)

    def parse(
        self,
        files: Iterable[PublishFile],
        entry: JsonMapping,
        base_iri: str | None,
        *,
        owner: str,
        halt: threading.Event,
    ) -> TripleSpool:
        """Returns the triples of every file that the entry chooses; `owner` is the API key that they are parsed for.

        Ends soon after `halt` is set.

        Raises:
            GraphRefusedError: a file is malformed, or it or all together exceed a limit; the message names the file.
            GraphUnavailableError: the files cannot be parsed now.
            OSError: a file cannot be read, or the disk is full.
        """
        spool = TripleSpool(self._folder)
        publication = _Publication(spool, entry, base_iri, owner, halt, MAX_TRIPLES, MAX_CHARACTERS)
        try:
            for file in files:
                if is_chosen(file.path, entry):
                    self._append(publication, file)
        except BaseException:
            spool.close()
            raise
        return spool

    @property
    def pids(self) -> list[int]:
        """The ids of the processes that parse or wait for a file."""
        return self._pool.pids

    def close(self) -> None:
        """Ends the processes; jobs in progress fail, and so do later ones."""
        self._pool.close()

    def _append(self, publication: _Publication, file: PublishFile) -> None:
        with TemporaryFile(dir=self._folder) as copy:
            _copy(file, copy, publication.halt)
            size = os.fstat(copy.fileno()).st_size
            try:
                publication.count(self._run(publication, file.path, copy, size))
            except ConfinedError as error:
                raise self._graph_error(error, file.path, size) from None

    def _graph_error(self, error: ConfinedError, path: str, size: int) -> GraphRefusedError | GraphUnavailableError:
        if error.kind in _OVER_LIMIT:
            return GraphRefusedError(f"'{path}': reading it needs more than {self._limits.in_words(size)}")
        if error.kind is FailureKind.FAILED and error.data is None:
            return GraphRefusedError(f"'{path}': {error}")
        return GraphUnavailableError(str(error))

    def _run(self, publication: _Publication, path: str, copy: IO[bytes], size: int) -> object:
        copy.seek(0)
        written = publication.spool.size_bytes
        try:
            return self._pool.run(
                "parse",
                publication.arguments(path),
                owner=publication.owner,
                cpu_seconds=self._limits.cpu_seconds(size),
                memory_bytes=self._limits.memory_mb * 2**20,
                descriptors=(copy.fileno(), publication.spool.descriptor),
                halt=publication.halt,
            )
        except ConfinedError:
            publication.spool.truncate(written)
            raise


def _copy(file: PublishFile, target: IO[bytes], halt: threading.Event) -> None:
    with file.open() as source:
        while block := source.read(_BLOCK_BYTES):
            if halt.is_set():
                raise GraphUnavailableError("the publication was ended")
            target.write(block)
    target.flush()
