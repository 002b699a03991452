"""Reads type and size of PNG, JPEG, GIF and WebP pictures from their structure, without decoding a pixel."""

import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

PNG: Final = "image/png"
JPEG: Final = "image/jpeg"
GIF: Final = "image/gif"
WEBP: Final = "image/webp"

_PNG_START: Final = b"\x89PNG\r\n\x1a\n"
_CHUNK_OVERHEAD: Final = 12
_JPEG_START: Final = 0xD8
_JPEG_END: Final = 0xD9
_JPEG_SCAN: Final = 0xDA
# Start of frame, without DHT, JPG and DAC, which are in the middle of its range.
_JPEG_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_ALONE: Final = frozenset({0x01, *range(0xD0, 0xD8)})
_GIF_EXTENSION: Final = 0x21
_GIF_IMAGE: Final = 0x2C
_GIF_END: Final = 0x3B
_VP8_START: Final = b"\x9d\x01\x2a"
_VP8L_START: Final = 0x2F


class BrokenPictureError(Exception):
    """A picture is malformed or ends too early."""


class Picture(NamedTuple):
    """Media type of a picture, its size in pixels, and whether it has several frames."""

    media_type: str
    width: int
    height: int
    animated: bool = False


def picture_type(data: bytes) -> str | None:
    """Returns the media type by the first bytes; None for another kind of file."""
    if data.startswith(_PNG_START):
        return PNG
    if data.startswith(b"\xff\xd8\xff"):
        return JPEG
    if data.startswith((b"GIF87a", b"GIF89a")):
        return GIF
    return WEBP if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None


def read_picture(data: bytes, media_type: str) -> Picture:
    """Returns the size of a picture of a type of `picture_type`, after following its structure to the end.

    Raises:
        BrokenPictureError: it is malformed, or ends too early.
    """
    try:
        picture = _READERS[media_type](data)
    except (struct.error, IndexError):
        raise BrokenPictureError from None
    if not (picture.width and picture.height):
        raise BrokenPictureError
    return picture


def _png(data: bytes) -> Picture:
    chunks = list(_png_chunks(data))
    kinds = [kind for kind, _ in chunks]
    if kinds[:1] != [b"IHDR"] or b"IDAT" not in kinds or kinds[-1] != b"IEND":
        raise BrokenPictureError
    width, height = struct.unpack(">IIxxxxx", chunks[0][1])
    return Picture(PNG, width, height, b"acTL" in kinds)


def _png_chunks(data: bytes) -> Iterator[tuple[bytes, memoryview]]:
    """Yields the kind and content of each chunk whose check sum is right, until the end or IEND."""
    view = memoryview(data)
    at = len(_PNG_START)
    while at < len(view):
        (length,) = struct.unpack_from(">I", view, at)
        end = at + length + _CHUNK_OVERHEAD
        if end > len(view):
            raise BrokenPictureError
        (checksum,) = struct.unpack_from(">I", view, end - 4)
        if zlib.crc32(view[at + 4 : end - 4]) != checksum:
            raise BrokenPictureError
        kind = bytes(view[at + 4 : at + 8])
        yield kind, view[at + 8 : end - 4]
        if kind == b"IEND":
            return
        at = end


def _jpeg(data: bytes) -> Picture:
    size: tuple[int, int] | None = None
    scanned = False
    at = 2
    while True:
        at = _next_marker(data, at, skip=scanned)
        marker = data[at + 1]
        at += 2
        if marker == _JPEG_END:
            break
        if marker in _JPEG_ALONE:
            continue
        (length,) = struct.unpack_from(">H", data, at)
        if length < 2 or at + length > len(data):
            raise BrokenPictureError
        if marker in _JPEG_FRAMES and size is None:
            height, width = struct.unpack_from(">HH", data, at + 3)
            size = width, height
        scanned = scanned or marker == _JPEG_SCAN
        at += length
    if size is None or not scanned:
        raise BrokenPictureError
    return Picture(JPEG, *size)


def _next_marker(data: bytes, at: int, *, skip: bool) -> int:
    """Returns the place of the next marker; with `skip` after the data of a scan, in which `ff 00` is no marker."""
    while True:
        found = data.find(b"\xff", at)
        if found < 0 or (found != at and not skip):
            raise BrokenPictureError
        following = data[found + 1]
        if following == 0xFF:
            at = found + 1
        elif following == 0x00:
            if not skip:
                raise BrokenPictureError
            at = found + 2
        else:
            return found


def _gif(data: bytes) -> Picture:
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    at = 13 + _color_table(flags)
    frames = 0
    while (block := data[at]) != _GIF_END:
        if block == _GIF_EXTENSION:
            at += 2
        elif block == _GIF_IMAGE:
            frames += 1
            at += 10 + _color_table(data[at + 9]) + 1
        else:
            raise BrokenPictureError
        while length := data[at]:
            at += length + 1
        at += 1
    if not frames:
        raise BrokenPictureError
    return Picture(GIF, width, height, frames > 1)


def _color_table(flags: int) -> int:
    return int(3 << ((flags & 7) + 1)) if flags & 0x80 else 0


def _webp(data: bytes) -> Picture:
    (length,) = struct.unpack_from("<I", data, 4)
    end = length + 8
    if end > len(data):
        raise BrokenPictureError
    size: tuple[int, int] | None = None
    kinds = set()
    at = 12
    while at + 8 <= end:
        kind = data[at : at + 4]
        (length,) = struct.unpack_from("<I", data, at + 4)
        if at + 8 + length > end:
            raise BrokenPictureError
        kinds.add(kind)
        size = size or _webp_size(kind, data[at + 8 : at + 8 + length])
        at += 8 + length + length % 2
    if size is None or not kinds & {b"VP8 ", b"VP8L", b"ANMF"}:
        raise BrokenPictureError
    return Picture(WEBP, *size, b"ANIM" in kinds)


def _webp_size(kind: bytes, content: bytes) -> tuple[int, int] | None:
    if kind == b"VP8X":
        return int.from_bytes(content[4:7], "little") + 1, int.from_bytes(content[7:10], "little") + 1
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", content, 1)
        if content[0] != _VP8L_START:
            raise BrokenPictureError
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", content, 6)
        if content[3:6] != _VP8_START:
            raise BrokenPictureError
        return width & 0x3FFF, height & 0x3FFF
    return None


_READERS: Final[Mapping[str, Callable[[bytes], Picture]]] = {PNG: _png, JPEG: _jpeg, GIF: _gif, WEBP: _webp}
