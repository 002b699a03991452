"""Zip of all outputs of a run, written while it is sent (contract 18.14, 18.15)."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import Final
from zipfile import ZIP_STORED, ZipFile, ZipInfo

from backend.storage.objects import PART_BYTES, ObjectStore
from backend.storage.tables.outputs import OutputRow

_LOCAL_HEADER: Final = 30
_DESCRIPTOR: Final = 16
_DIRECTORY_ENTRY: Final = 46
_DIRECTORY_END: Final = 22


def bundle_size(entries: Iterable[OutputRow]) -> int:
    """Returns the size of the zip of these rows: uncompressed, and too small to need zip64, by `require_bundle`."""
    per_file = _LOCAL_HEADER + _DESCRIPTOR + _DIRECTORY_ENTRY
    sizes: Iterable[int] = (per_file + 2 * len(entry.path.encode()) + entry.size_bytes for entry in entries)
    return _DIRECTORY_END + sum(sizes)


def bundle_parts(entries: Sequence[OutputRow], objects: ObjectStore) -> Iterator[bytes]:
    """Yields the zip in parts of 256 KiB or less; equal rows give equal bytes, as the times are those of promotion."""
    return _in_parts(_chunks(entries, objects))


class _Sink:
    """Output stream of the zip writer. It cannot seek, so sizes and checksums follow each file."""

    def __init__(self) -> None:
        self._written = bytearray()

    def write(self, data: bytes, /) -> int:
        self._written += data
        return len(data)

    def flush(self) -> None:
        """Does nothing: nothing is buffered."""

    def close(self) -> None:
        """What was written can still be taken."""

    def take(self) -> bytes:
        taken = bytes(self._written)
        self._written.clear()
        return taken


def _chunks(entries: Sequence[OutputRow], objects: ObjectStore) -> Iterator[bytes]:
    sink = _Sink()
    with ZipFile(sink, "w", ZIP_STORED) as archive:
        for entry in entries:
            info = ZipInfo(entry.path, datetime.fromtimestamp(entry.created_at / 1000, UTC).timetuple()[:6])
            info.file_size = entry.size_bytes
            info.external_attr = 0o644 << 16
            with (
                closing(objects.open_range(entry.object_key, 0, entry.size_bytes)) as source,
                archive.open(info, "w") as target,
            ):
                for part in source:
                    target.write(part)
                    yield sink.take()
    yield sink.take()


def _in_parts(chunks: Iterator[bytes]) -> Iterator[bytes]:
    waiting = bytearray()
    for chunk in chunks:
        waiting += chunk
        while len(waiting) >= PART_BYTES:
            yield bytes(waiting[:PART_BYTES])
            del waiting[:PART_BYTES]
    if waiting:
        yield bytes(waiting)
