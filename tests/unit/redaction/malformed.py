"""Files at which parsers raise errors of many kinds, by name."""

import io
import zipfile
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

_BAD_TEXT: Final = pa.StringArray.from_buffers(1, pa.array([0, 2], pa.int32()).buffers()[1], pa.py_buffer(b"\xff\xfe"))


def _parquet(column: Any) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"a": column}), buffer)
    return buffer.getvalue()


def _zip(method: int = zipfile.ZIP_STORED, name: str = "a.txt") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr(name, bytes(range(256)) * 20)
    return buffer.getvalue()


def _with_content_broken(archive: bytes) -> bytes:
    """Every byte of the compressed content inverted, behind a header of 35 bytes."""
    end = archive.index(b"PK\x01\x02")
    return archive[:44] + bytes(byte ^ 0xFF for byte in archive[44:end]) + archive[end:]


def _with_directory_of(archive: bytes, size: int) -> bytes:
    place = archive.rindex(b"PK\x05\x06") + 12
    return archive[:place] + size.to_bytes(4, "little") + archive[place + 4 :]


MALFORMED: Final[Mapping[str, bytes]] = {
    "text.parquet": _parquet(_BAD_TEXT),
    "nested-text.parquet": _parquet(pa.ListArray.from_arrays([0, 1], _BAD_TEXT)),
    "time.parquet": _parquet(pa.array([[2**62]], pa.list_(pa.timestamp("us")))),
    "date.parquet": _parquet(pa.array([[2**31 - 1]], pa.list_(pa.date32()))),
    "names.parquet": _parquet(pa.StructArray.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["x", "x"])),
    "name.zip": _zip(name="\u00e9.txt").replace("\u00e9".encode(), b"\xff\xff"),
    "lzma.zip": _with_content_broken(_zip(zipfile.ZIP_LZMA)),
    "bzip2.zip": _with_content_broken(_zip(zipfile.ZIP_BZIP2)),
    "directory.zip": _with_directory_of(_zip(), 1_000_000),
}
