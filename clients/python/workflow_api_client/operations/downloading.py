"""Downloads that resume after a broken connection, checked against the digests that the service lists."""

import hashlib
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Protocol

from workflow_api_client.core import Core
from workflow_api_client.exchange import Answer, Close, Pause, Read, Steps, TransportError, Work
from workflow_api_client.failures import ConnectionFailedError, CorruptDownloadError
from workflow_api_client.route import Route

IDLE_SECONDS: Final = 60.0

_PARTIAL: Final = 206
_BLOCK: Final = 2**20
_TRIES_WITHOUT_PROGRESS: Final = 5

Arrived = Callable[[int], None]
"""Called with the number of bytes of the file that have arrived."""


@dataclass(frozen=True)
class Source:
    """Source of a download: route, and the required strong entity tag and size, if known.

    With `end` only the bytes before this offset are fetched.
    """

    route: Route
    path: dict[str, str]
    tag: str | None = None
    size: int | None = None
    end: int | None = None


class Part(Protocol):
    """Destination of a download, which may be partly complete."""

    def size(self) -> int:
        """Returns the number of bytes that have arrived."""

    def opened(self, begin: int) -> IO[bytes]:
        """Returns a writer at an offset; later bytes are truncated."""


class FilePart:
    """A destination in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def size(self) -> int:
        """Returns the size of the file."""
        return self._path.stat().st_size if self._path.exists() else 0

    def opened(self, begin: int) -> IO[bytes]:
        """Returns the file, truncated."""
        return _truncated(self._path.open("r+b" if self._path.exists() else "wb"), begin)


class MemoryPart(io.BytesIO):
    """A destination in memory for the bytes from one offset to another; other bytes are dropped."""

    def __init__(self, begin: int, end: int) -> None:
        super().__init__()
        self._begin = begin
        self._end = end
        self._place = begin

    def size(self) -> int:
        """Returns the offset up to which bytes have arrived."""
        return self._begin + self.getbuffer().nbytes

    def opened(self, begin: int) -> IO[bytes]:
        """Returns itself, truncated."""
        self._place = begin
        return _truncated(self, max(0, begin - self._begin))

    def write(self, piece: Any, /) -> int:
        """Writes the bytes of a piece that lie in the window."""
        given = memoryview(piece)
        kept = given[max(0, self._begin - self._place) : max(0, self._end - self._place)]
        self._place += given.nbytes
        super().write(kept)
        return given.nbytes

    def close(self) -> None:
        """Does nothing, so that the bytes stay readable."""


def _truncated(file: IO[bytes], begin: int) -> IO[bytes]:
    file.truncate(begin)
    file.seek(begin)
    return file


def fetch(core: Core, source: Source, part: Part, arrived: Arrived) -> Steps[None]:
    """Completes a part, from its present end if the service supports ranges.

    Raises:
        ConnectionFailedError: the download broke off several times without progress.
        CorruptDownloadError: for an `end`, the answer is of other bytes: no digest would show that later.
    """
    tag = source.tag
    size, last = (source.size, "") if source.end is None else (source.end, source.end - 1)
    failures = 0
    while True:
        offset: int = yield Work(part.size)
        if offset and offset == size:
            # No request for a complete part, because its range would not be satisfiable.
            return
        ranged = offset or source.end is not None
        headers = {"Range": f"bytes={offset}-{last}", **({"If-Range": tag} if tag else {})} if ranged else {}
        answer = yield from core.call(source.route, source.path, headers=headers, idle=IDLE_SECONDS)
        tag = tag or answer.headers.get("etag")
        continues = _continues(answer, offset)
        if source.end is not None and (
            answer.headers.get("etag", tag) != tag or (answer.status == _PARTIAL and not continues)
        ):
            raise CorruptDownloadError("The answer is of other bytes than were asked for.")
        begin = offset if continues else 0
        try:
            end = yield from _write(core, part, begin, arrived)
            missing = int(answer.headers.get("content-length", end - begin)) - (end - begin)
            failure: Exception | None = TransportError(f"{missing} bytes are missing", sent=True) if missing else None
        except TransportError as error:
            failure = error
        yield Close()
        if failure is None:
            return
        arrived_size: int = yield Work(part.size)
        failures = 1 if arrived_size > offset else failures + 1
        if failures > _TRIES_WITHOUT_PROGRESS:
            raise ConnectionFailedError(f"The download broke off: {failure}", sent=True) from failure
        yield Pause(0.5 * 2.0 ** (failures - 1))


def _continues(answer: Answer, offset: int) -> bool:
    return answer.status == _PARTIAL and answer.headers.get("content-range", "").startswith(f"bytes {offset}-")


def _write(core: Core, part: Part, begin: int, arrived: Arrived) -> Steps[int]:
    """Writes the opened answer at an offset, truncating later bytes; returns the offset of the end."""
    file: IO[bytes] = yield Work(lambda: part.opened(begin))
    place = begin
    try:
        while True:
            piece: bytes = yield Read()
            if not piece:
                return place
            yield Work(lambda piece=piece: file.write(piece))  # type: ignore[misc] # bound now, called at once
            place += len(piece)
            arrived(place)
            core.check_time()
    finally:
        file.close()


def digest_of(file: Path) -> str:
    """Returns the SHA-256 of a file in hexadecimal."""
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        while block := opened.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def checked_file(core: Core, source: Source, target: Path, sha256: str, size: int, arrived: Arrived) -> Steps[None]:
    """Downloads a file with a known digest; keeps an existing file with the digest.

    Raises:
        CorruptDownloadError: the bytes have another digest; they are deleted.
    """
    if (yield Work(lambda: target.is_file() and digest_of(target) == sha256)):
        arrived(size)
        return
    part = target.with_name(f".{target.name[:100]}.{sha256[:16]}.part")
    yield Work(lambda: target.parent.mkdir(parents=True, exist_ok=True))
    present: int = yield Work(lambda: part.stat().st_size if part.exists() else -1)
    if present > size:
        yield Work(part.unlink)
    if present != size:
        yield from fetch(core, source, FilePart(part), arrived)
    if (yield Work(lambda: digest_of(part))) != sha256:
        yield Work(part.unlink)
        raise CorruptDownloadError(f"{target.name} arrived with another digest than the service lists.")
    yield Work(lambda: part.replace(target))
