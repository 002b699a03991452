"""The tar of a backup: database, objects by key, digests and a manifest, written and read as a stream.

The manifest is the last member; a list has the digests of all other members.
"""

import hashlib
import io
import re
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from types import TracebackType
from typing import Any, BinaryIO, Final, Protocol, Self

import orjson

from backend.storage.factory import DATABASE_FILE
from deploy.failures import CommandError

FORMAT: Final = 1
DATABASE: Final = DATABASE_FILE
OBJECTS: Final = "objects/"
DIGESTS: Final = "files.sha256"
"""List for `sha256sum --check` of every file of the backup except this list and the manifest."""
MANIFEST: Final = "manifest.json"
"""The last member: an archive without it is not whole."""

_OBJECT: Final = re.compile(r"objects/(runs|uploads)(/[a-z0-9_-]+)+")
_DIGEST_LINE: Final = re.compile(rf"([0-9a-f]{{64}})  ({re.escape(DATABASE)}|{_OBJECT.pattern})")


class BackupError(CommandError):
    """A backup cannot be made or restored; the message is one sentence that says why."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="backup_failed")


@dataclass(frozen=True, slots=True)
class BackupManifest:
    """Content of a backup. `objects_store` is `s3` if objects are in a bucket; the backup then has none of them."""

    format: int
    release: str
    schema: str
    deployment_id: str
    taken_at: str
    """Time of the database's copy, ISO 8601 in UTC: the backup has everything acknowledged before."""
    objects_store: str
    objects: int
    object_bytes: int
    runs: int
    absent_objects: int
    """Objects that rows name and that were already lost or damaged in the deployment."""
    digests_sha256: str

    def to_json(self) -> bytes:
        """Returns the JSON object of the archive's last member."""
        return orjson.dumps(asdict(self), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def read_manifest(content: bytes) -> BackupManifest:
    """Reads a manifest.

    Raises:
        BackupError: the content is no manifest, or one in the format of a later release.
    """
    try:
        given: Any = orjson.loads(content)
        if given["format"] != FORMAT:
            raise BackupError(f"The backup has the form {given['format']}, which this release does not know.")
        return BackupManifest(**{field.name: field.type(given[field.name]) for field in fields(BackupManifest)})  # type: ignore[operator]  # all are str or int
    except (KeyError, TypeError, ValueError) as error:
        raise BackupError(f"The manifest of the backup is damaged: {type(error).__name__}.") from None


def is_object(name: str) -> bool:
    """Returns whether a member's name names an object; such a name never leads out of a folder."""
    return _OBJECT.fullmatch(name) is not None


def digest_line(digest: str, name: str) -> bytes:
    """Returns one line of the list of digests."""
    return f"{digest}  {name}\n".encode()


def read_digest_line(line: bytes) -> tuple[str, str]:
    """Returns digest and name of a line.

    Raises:
        BackupError: the line has another form.
    """
    found = _DIGEST_LINE.fullmatch(line.decode("ascii", "replace").removesuffix("\n"))
    if found is None:
        raise BackupError("The list of digests in the backup is damaged.")
    return found[1], found[2]


_PART_BYTES: Final = 256 * 1024


class Sink(Protocol):
    """Target of an archive."""

    def write(self, data: bytes, /) -> int:
        """Writes all of the data."""


class ArchiveWriter:
    """Writes members one after the other, without keeping them in memory.

    As a context manager it writes nothing more after an error; a whole archive has to be closed first.
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
        """Writes bytes of the archive for tarfile, which writes once more at its end, even after a failed write."""
        return len(data) if self._sink is None else self._sink.write(data)

    def add(self, name: str, content: BinaryIO, size: int) -> str:
        """Writes `size` bytes from the content's position, and returns their SHA-256 in hexadecimal.

        Raises:
            EOFError: the content is shorter; the archive cannot be continued.
            OSError: the content cannot be read (the error's file is `name`), or the archive cannot be written.
        """
        member = tarfile.TarInfo(name)
        member.size, member.mode, member.mtime = size, 0o600, self._now
        source = _DigestingReader(name, content)
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
    """Yields name and content of each member of an archive; content must be read before the next member.

    Raises:
        BackupError: the source is no archive, ends early, or has members that are no files.
    """
    with _read_failures(), tarfile.open(fileobj=source, mode="r|", bufsize=_PART_BYTES) as tar:
        # `members`, unknown to the stub, would keep a record of every member.
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
    """Returns the first bytes of an open file, at most `most`.

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


class _DigestingReader:
    """Reads from a file and computes the digest of the bytes read; raises EOFError if the file is too short."""

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
