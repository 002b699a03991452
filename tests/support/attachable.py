"""Small pictures and PDF files, well-formed and hostile, as bytes."""

import struct
import zlib
from collections.abc import Sequence


def png(width: int = 2, height: int = 2, *, extra: bytes = b"", animated: bool = False) -> bytes:
    """A PNG of black pixels, whose `extra` is a chunk of text; large sizes are only claimed."""
    rows = b"".join(b"\0" + bytes(3 * width) for _ in range(height)) if width * height < 1_000_000 else b""
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))]
    chunks += [(b"acTL", struct.pack(">II", 2, 0))] if animated else []
    chunks += [(b"tEXt", b"Comment\0" + extra)] if extra else []
    chunks += [(b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, content) for kind, content in chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def jpeg(width: int = 2, height: int = 2) -> bytes:
    """The structure of a JPEG with one component and a scan of no meaning."""
    frame = b"\xff\xc0" + struct.pack(">HBHHB", 11, 8, height, width, 1) + b"\x01\x11\x00"
    scan = b"\xff\xda" + struct.pack(">HB", 8, 1) + b"\x01\x00\x00\x3f\x00" + b"\x12\xff\x00\x34\xff\xd0\x56"
    return b"\xff\xd8" + b"\xff\xe0\x00\x04ab" + frame + scan + b"\xff\xd9"


def gif(width: int = 2, height: int = 2, frames: int = 1) -> bytes:
    """The structure of a GIF with a table of two colours."""
    image = b"\x21\xf9\x04\0\0\0\0\0" + b"\x2c" + struct.pack("<HHHHB", 0, 0, width, height, 0) + b"\x02\x02\x44\x01\0"
    return b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + bytes(6) + image * frames + b"\x3b"


def webp(width: int = 2, height: int = 2, *, lossless: bool = False, animated: bool = False) -> bytes:
    """The structure of a WebP picture."""
    if animated:
        size = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
        return _riff((b"VP8X", b"\x02\0\0\0" + size), (b"ANIM", bytes(6)), (b"ANMF", bytes(16)))
    if lossless:
        return _riff((b"VP8L", b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14) + b"\0"))
    return _riff((b"VP8 ", b"\x10\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height)))


def _riff(*chunks: tuple[bytes, bytes]) -> bytes:
    body = b"WEBP" + b"".join(
        kind + struct.pack("<I", len(content)) + content + bytes(len(content) % 2) for kind, content in chunks
    )
    return b"RIFF" + struct.pack("<I", len(body)) + body


def pdf(pages: int = 1) -> bytes:
    """A PDF of blank pages."""
    kids = " ".join(f"{number + 3} 0 R" for number in range(pages))
    leaves = [b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] >>"] * pages
    return pdf_of([b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids.encode(), pages), *leaves])


def pdf_of(objects: Sequence[bytes], trailer: bytes = b"") -> bytes:
    """A PDF whose object 1 is the catalogue, and 2 the first of `objects`, the root of the pages."""
    data = b"%PDF-1.7\n"
    places = []
    for number, content in enumerate([b"<< /Type /Catalog /Pages 2 0 R >>", *objects], 1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(places) + 1
    head = b"xref\n0 %d\n0000000000 65535 f \n" % size
    end = b"trailer\n<< /Size %d /Root 1 0 R %s >>\nstartxref\n%d\n%%%%EOF\n" % (size, trailer, len(data))
    return data + head + table + end
