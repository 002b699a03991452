"""Program of the confined processes that render files; see `backend.isolation.confined`."""

import os
import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Final

from markdown_it import MarkdownIt

from backend.isolation.confined import Answer, Arguments
from backend.resources.attachments.pictures import BrokenPictureError, picture_type, read_picture

_PNG_START: Final = b"\x89PNG\r\n\x1a\n"
_RGB: Final = 2


def markdown(arguments: Arguments, _: Sequence[int]) -> Any:
    """Returns the Markdown `text` as HTML; HTML in the Markdown is escaped."""
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    return parser.render(arguments["text"])


def picture(_: Arguments, descriptors: Sequence[int]) -> Answer:
    """Returns media type, width and height of the picture at the first descriptor; null for any other file."""
    data = _read(descriptors[0])
    media_type = picture_type(data)
    if media_type is None:
        return {"picture": None}
    try:
        found = read_picture(data, media_type)
    except BrokenPictureError:
        return {"picture": None}
    return {"picture": {"media_type": found.media_type, "width": found.width, "height": found.height}}


def pages(_: Arguments, descriptors: Sequence[int]) -> Answer:
    """Returns the number of pages of the PDF at the first descriptor; 0 where it cannot be read."""
    document = _document(descriptors[0])
    return {"pages": 0 if document is None else len(document)}


def page(arguments: Arguments, descriptors: Sequence[int]) -> Answer:
    """Writes the page `number`, from 1, of the PDF at the first descriptor to the second, as a PNG.

    The picture has at most `side` pixels on each side. `drawn` is false where the page cannot be read.
    """
    document = _document(descriptors[0])
    number, side = arguments["number"], arguments["side"]
    if document is None or not 1 <= number <= len(document):
        return {"drawn": False}
    try:
        drawn = document[number - 1]
        width, height = drawn.get_size()
        # Forms and their scripts are not loaded.
        bitmap = drawn.render(scale=min(side / max(width, height, 1), 4), may_draw_forms=False, rev_byteorder=True)
    except Exception:  # noqa: BLE001 - the library raises many kinds for malformed files
        return {"drawn": False}
    with os.fdopen(os.dup(descriptors[1]), "wb") as file:
        file.write(_png(bitmap.width, bitmap.height, bitmap.stride, bytes(bitmap.buffer), bitmap.n_channels))
    return {"drawn": True}


def _document(descriptor: int) -> Any:
    """Returns an opened PDF; None where it is malformed or encrypted."""
    import pypdfium2

    try:
        return pypdfium2.PdfDocument(_read(descriptor))
    except pypdfium2.PdfiumError:
        return None


def _png(width: int, height: int, stride: int, pixels: bytes, channels: int) -> bytes:
    """Returns pixels of red, green and blue, with any further channel left out, as a PNG."""
    rows = bytearray()
    for start in range(0, height * stride, stride):
        row = bytearray(3 * width)
        for channel in range(3):
            row[channel::3] = pixels[start + channel : start + channels * width : channels]
        # Each row begins with the number of its filter.
        rows += b"\0" + row
    head = struct.pack(">IIBBBBB", width, height, 8, _RGB, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(bytes(rows))), (b"IEND", b""))
    return _PNG_START + b"".join(_chunk(*chunk) for chunk in chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _read(descriptor: int) -> bytes:
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(0)
        return file.read()


OPERATIONS: Final[dict[str, Callable[[Arguments, Sequence[int]], Any]]] = {
    "markdown": markdown,
    "picture": picture,
    "pages": pages,
    "page": page,
}
