"""Zip of all outputs of a run, generated while it is sent, from any byte on (contract 18.14 to 18.16)."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import cached_property
from struct import Struct
from typing import Final
from zlib import crc32

from backend.storage.objects import PART_BYTES, ObjectStore
from backend.storage.tables.files import OutputRow

# Bytes after which an object is opened again, so that its erasure ends the download.
WINDOW_BYTES: Final = 32 * 2**20

# Part of the entity tag; to be raised with any change of the bytes generated below.
_FORMAT: Final = 2
_LOCAL_HEADER: Final = Struct("<4s5H3L2H")
_DIRECTORY_ENTRY: Final = Struct("<4s6H3L5H2L")
_DIRECTORY_END: Final = Struct("<4s4H2LH")
_VERSION: Final = 20
_MADE_ON_UNIX: Final = 3 << 8
# Flag for a name in UTF-8.
_UTF8: Final = 0x800
_PLAIN_FILE: Final = 0o644 << 16


class Bundle:
    """The zip of outputs: uncompressed, and by `require_bundle` too small to need zip64.

    Local headers have sizes and checksums, so that the zip can be unpacked while it is received. Equal rows give equal
    bytes, as the times are those of promotion. `size` is in bytes, `etag` a strong entity tag, `computed` the CRC-32 by
    output id of files whose rows have none, as far as needed so far.
    """

    def __init__(self, rows: Sequence[OutputRow], objects: ObjectStore) -> None:
        self._rows = rows
        self._objects = objects
        self.computed: dict[str, int] = {}
        per_file = _LOCAL_HEADER.size + _DIRECTORY_ENTRY.size
        self.size = _DIRECTORY_END.size + sum(per_file + 2 * len(row.path.encode()) + row.size_bytes for row in rows)

    @cached_property
    def etag(self) -> str:
        """Digest of all that decides the bytes of the zip."""
        digest = hashlib.sha256(b"%d\n" % _FORMAT)
        for row in self._rows:
            digest.update(f"{row.path}\0{row.size_bytes}\0{row.sha256}\0{row.created_at}\n".encode())
        return digest.hexdigest()

    def parts(self, offset: int, length: int) -> Iterator[bytes]:
        """Yields `length` bytes from `offset` on, in parts of 256 KiB or less.

        Reads the objects whose bytes are in the range, and first the objects whose checksums are in it but in no row.

        Raises:
            KeyError: an object has been removed.
        """
        waiting = bytearray()
        for chunk in self._chunks(offset, offset + length):
            if len(waiting) + len(chunk) > PART_BYTES:
                yield bytes(waiting)
                waiting.clear()
            if len(chunk) == PART_BYTES:
                # A part in the middle of a large file need not be copied.
                yield chunk
            else:
                waiting += chunk
        if waiting:
            yield bytes(waiting)

    def _chunks(self, first: int, end: int) -> Iterator[bytes]:
        at = 0
        offsets = []
        for row in self._rows:
            offsets.append(at)
            length = _LOCAL_HEADER.size + len(row.path.encode())
            if _overlaps(at, length, first, end):
                yield _cut(self._local_header(row), at, first, end)
            at += length
            yield from self._read(row, max(first - at, 0), min(end - at, row.size_bytes))
            at += row.size_bytes
        directory = at
        for row, offset in zip(self._rows, offsets, strict=True):
            length = _DIRECTORY_ENTRY.size + len(row.path.encode())
            if _overlaps(at, length, first, end):
                yield _cut(self._directory_entry(row, offset), at, first, end)
            at += length
        count = len(self._rows)
        tail = _DIRECTORY_END.pack(b"PK\5\6", 0, 0, count, count, at - directory, directory, 0)
        yield _cut(tail, at, first, end)

    def _read(self, row: OutputRow, start: int, stop: int) -> Iterator[bytes]:
        for begin in range(start, stop, WINDOW_BYTES):
            length = min(WINDOW_BYTES, stop - begin)
            with closing(self._objects.open_range(row.object_key, begin, length)) as source:
                yield from source

    def _checksum(self, row: OutputRow) -> int:
        checksum = self.computed.get(row.output_id) if row.crc32 is None else row.crc32
        if checksum is None:
            checksum = 0
            for part in self._read(row, 0, row.size_bytes):
                checksum = crc32(part, checksum)
            self.computed[row.output_id] = checksum
        return checksum

    def _local_header(self, row: OutputRow) -> bytes:
        name, flags = _name(row)
        size = row.size_bytes
        fixed = _LOCAL_HEADER.pack(
            *(b"PK\3\4", _VERSION, flags, 0, *_dos_time(row)), *(self._checksum(row), size, size, len(name), 0)
        )
        return fixed + name

    def _directory_entry(self, row: OutputRow, offset: int) -> bytes:
        name, flags = _name(row)
        size = row.size_bytes
        fixed = _DIRECTORY_ENTRY.pack(
            *(b"PK\1\2", _VERSION | _MADE_ON_UNIX, _VERSION, flags, 0, *_dos_time(row)),
            *(self._checksum(row), size, size, len(name), 0, 0, 0, 0, _PLAIN_FILE, offset),
        )
        return fixed + name


def _name(row: OutputRow) -> tuple[bytes, int]:
    return row.path.encode(), 0 if row.path.isascii() else _UTF8


def _dos_time(row: OutputRow) -> tuple[int, int]:
    at = datetime.fromtimestamp(row.created_at / 1000, UTC)
    return at.hour << 11 | at.minute << 5 | at.second // 2, (at.year - 1980) << 9 | at.month << 5 | at.day


def _overlaps(at: int, length: int, first: int, end: int) -> bool:
    return at < end and first < at + length


def _cut(piece: bytes, at: int, first: int, end: int) -> bytes:
    """Returns the bytes of a piece at `at` that are within a range."""
    return piece[max(first - at, 0) : max(end - at, 0)]
