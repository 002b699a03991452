"""Temporary file of triples, from the confined process that parses them to the graph."""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Self

from backend.resources.graphs.graph import TripleStatement

if TYPE_CHECKING:
    from pyoxigraph import Triple


class TripleSpool:
    """Unnamed file in `folder`, in the encoding of `backend.resources.graphs.triple_json`; removed when closed."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._file: IO[bytes] = TemporaryFile(dir=folder)  # noqa: SIM115 - `close` closes it

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def descriptor(self) -> int:
        """The file descriptor; writes to it append."""
        return self._file.fileno()

    @property
    def size_bytes(self) -> int:
        """Bytes written so far."""
        return os.fstat(self.descriptor).st_size

    def truncate(self, size_bytes: int) -> None:
        """Drops all but the first bytes."""
        os.ftruncate(self.descriptor, size_bytes)
        os.lseek(self.descriptor, size_bytes, os.SEEK_SET)

    def copied(
        self, change: "Callable[[Iterator[TripleStatement]], Iterable[Triple | TripleStatement]]"
    ) -> "TripleSpool":
        """Returns a new spool with these triples, changed by `change`."""
        copy = TripleSpool(self._folder)
        try:
            copy._write(change(self.read()))
        except BaseException:
            copy.close()
            raise
        return copy

    def close(self) -> None:
        """Closes and so removes the file."""
        self._file.close()

    def read(self) -> Iterator[TripleStatement]:
        """Returns all triples, from the first; raises GraphRefusedError as `read_triples`."""
        from backend.resources.graphs.triple_json import read_triples

        self._file.seek(0)
        return read_triples(self._file)

    def _write(self, triples: "Iterable[Triple | TripleStatement]") -> None:
        from backend.resources.graphs.triple_json import write_triples

        write_triples(self._file, triples)
