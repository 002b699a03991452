"""Writes and reads the tar of a backup as a stream, with the digest of every member."""

import hashlib
import io
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, BinaryIO, Final, Protocol, Self

from deploy.backup.layout import BackupError

_PART_BYTES: Final = 256 * 1024


class Sink(Protocol):
    """Where an archive is written to."""

    def write(self, data: bytes, /) -> int:
        """Writes all of the data."""


class ArchiveWriter:
    """Writes members one after the other; nothing of them stays in memory.

    As a context manager it writes nothing more after an error; an archive that is whole was closed before.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink: Sink | None = sink
        # The stub of tarfile wants a whole file, and knows no `members`.
        archive: Any = self
        self._tar: Any = tarfile.open(  # noqa: SIM115 - closed by `close`
            fileobj=archive, mode="w|", format=tarfile.PAX_FORMAT, bufsize=_PART_BYTES
        )
        self._now = int(time.time())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._sink = None

    def write(self, data: bytes) -> int:
        """Writes the archive's own bytes; tarfile tries that at its end even where a write has failed."""
        return len(data) if self._sink is None else self._sink.write(data)

    def add(self, name: str, content: BinaryIO, size: int) -> str:
        """Writes `size` bytes from where the content stands, and returns their SHA-256 in hexadecimal.

        Raises:
            EOFError: there are fewer; the archive cannot be continued.
            OSError: they cannot be read, with `name` as its file, or the archive cannot be written.
        """
        member = tarfile.TarInfo(name)
        member.size, member.mode, member.mtime = size, 0o600, self._now
        source = _Digesting(name, content)
        self._tar.addfile(member, source)
        self._tar.members.clear()
        return source.hexdigest()

    def add_bytes(self, name: str, content: bytes) -> str:
        """Writes bytes as a member, and returns their SHA-256 in hexadecimal."""
        return self.add(name, io.BytesIO(content), len(content))

    def close(self) -> None:
        """Ends the archive."""
        self._tar.close()


def members(source: BinaryIO) -> Iterator[tuple[str, BinaryIO]]:
    """Yields name and content of each member of an archive, which must be read before the next.

    Raises:
        BackupError: it is no archive, ends early, or has something else than files in it.
    """
    with _read_failures(), tarfile.open(fileobj=source, mode="r|", bufsize=_PART_BYTES) as tar:
        # The stub knows no `members`, which would keep every one of them.
        read: Any = tar
        while (member := tar.next()) is not None:
            content = tar.extractfile(member) if member.isreg() and not member.issparse() else None
            if content is None:
                raise BackupError(f"The archive holds {member.name!r}, which is no file: it is no backup of this kind.")
            yield member.name, content  # type: ignore[misc]  # it is only read
            read.members.clear()


def parts(content: BinaryIO) -> Iterator[bytes]:
    """Yields the bytes of an open file in parts.

    Raises:
        BackupError: the archive ends within it.
    """
    with _read_failures():
        while part := content.read(_PART_BYTES):
            yield part


def beginning(content: BinaryIO, most: int) -> bytes:
    """Returns at most so many bytes of an open file.

    Raises:
        BackupError: the archive ends within them.
    """
    with _read_failures():
        return content.read(most)


@contextmanager
def _read_failures() -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, EOFError) as error:
        raise BackupError(f"The backup is not whole, or no backup: {str(error) or type(error).__name__}.") from error


class _Digesting:
    """Reads from a file, and takes the digest of what was read; raises EOFError where there is less than was asked."""

    def __init__(self, name: str, file: BinaryIO) -> None:
        self._name = name
        self._file = file
        self._digest = hashlib.sha256()

    def read(self, size: int) -> bytes:
        try:
            data = self._file.read(size)
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._name) from error
        if len(data) < size:
            raise EOFError(self._name)
        self._digest.update(data)
        return data

    def hexdigest(self) -> str:
        return self._digest.hexdigest()
