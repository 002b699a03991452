"""Program of confined processes that examine files for a model's prompt; see `backend.isolation.confined`."""

import hashlib
import io
import logging
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from backend.isolation.confined import Answer, Arguments
from backend.resources.attachments.pictures import BrokenPictureError, picture_type, read_picture

if TYPE_CHECKING:
    from pypdf import PdfReader

PDF: Final = "application/pdf"
_PDF_END: Final = b"%%EOF"
# Readers look for the end of the document in its last bytes.
_TAIL_BYTES: Final = 1_024
_MOST_NODES: Final = 100_000


def configure(_: Mapping[str, Any], __: Path | None) -> None:
    """Silences libraries, whose log lines and warnings may quote the file."""
    logging.getLogger().addHandler(logging.NullHandler())
    warnings.simplefilter("ignore")


def examine(arguments: Arguments, descriptors: Sequence[int]) -> Answer:
    """Returns type, size and digest of the file at the first descriptor, of at most `most_bytes`, by its content.

    `media_type` is null for a type that no model gets. `problem` says why it cannot be sent.
    """
    data = _read(descriptors[0], arguments["most_bytes"])
    answer: Answer = {"sha256": hashlib.sha256(data).hexdigest(), "media_type": None, "problem": None}
    if (media_type := picture_type(data)) is not None:
        return answer | _picture(data, media_type)
    if data.startswith(b"%PDF-"):
        return answer | _document(data)
    return answer


def _read(descriptor: int, most: int) -> bytes:
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(0)
        return file.read(most)


def _picture(data: bytes, media_type: str) -> Answer:
    try:
        picture = read_picture(data, media_type)
    except BrokenPictureError:
        return {"media_type": media_type, "problem": "it is malformed, or ends too early"}
    return {
        "media_type": media_type,
        "width": picture.width,
        "height": picture.height,
        "problem": "it is animated" if picture.animated else None,
    }


def _document(data: bytes) -> Answer:
    from pypdf import PdfReader

    answer: Answer = {"media_type": PDF}
    if _PDF_END not in data[-_TAIL_BYTES:]:
        return answer | {"problem": "it is malformed, or ends too early"}
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted:
            return answer | {"problem": "it is encrypted"}
        pages = _count_pages(reader)
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - the library raises many kinds for malformed files
        return answer | {"problem": "it is malformed"}
    return answer | {"pages": pages, "problem": None if pages else "it has no pages"}


def _count_pages(reader: "PdfReader") -> int:
    """Returns the number of leaves in the tree of pages, whatever the tree says of itself.

    Raises:
        ValueError: the tree has a cycle, or more nodes than any document that can be sent.
    """
    root = reader.root_object["/Pages"]
    waiting: list[Any] = [root]
    seen: set[int] = set()
    pages = 0
    for _ in range(_MOST_NODES):
        if not waiting:
            return pages
        node = waiting.pop().get_object()
        kids = node.get("/Kids")
        if kids is None:
            pages += 1
            continue
        if id(node) in seen:
            raise ValueError("a cycle")
        seen.add(id(node))
        waiting += kids.get_object()
    raise ValueError("too many nodes")


OPERATIONS = {"examine": examine}
