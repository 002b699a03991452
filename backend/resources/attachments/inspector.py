"""Examines files for the prompt of a model in confined processes, which can be killed."""

import os
import threading
from typing import Any, Final, NamedTuple

from backend.isolation.confined import ConfinedError, ConfinedPool, FailureKind
from backend.resources.attachments.pictures import GIF, JPEG, PNG, WEBP
from backend.resources.attachments.program import PDF
from backend.settings import JobLimits

MOST_PICTURE_BYTES: Final = 3_750_000
"""Most bytes of a picture: in base64 5,000,000, the least of what large providers take."""
MOST_DOCUMENT_BYTES: Final = 10_000_000
MOST_SIDE: Final = 8_000
"""Most pixels of a side of a picture."""
MOST_PAGES: Final = 100
"""Most pages of a PDF."""
_TYPES: Final = {PNG: "PNG", JPEG: "JPEG", GIF: "GIF", WEBP: "WebP", PDF: "PDF"}
ALLOWED: Final = "PNG, JPEG, GIF, WebP or PDF by its content"

_LIMITS: Final = JobLimits(seconds=5.0, seconds_per_mb=1.0, memory_mb=512)
_OVER_LIMIT: Final = frozenset({FailureKind.DEADLINE, FailureKind.MEMORY, FailureKind.TOO_LARGE, FailureKind.DIED})


class AttachmentRefusedError(Exception):
    """A file cannot be sent to a model; the text continues a sentence that begins with the file's name."""


class InspectorUnavailableError(OSError):
    """The file could not be examined now; another try may succeed."""


class Examined(NamedTuple):
    """Media type and SHA-256, in hexadecimal digits, of a file that can be sent."""

    media_type: str
    sha256: str


class AttachmentInspector:
    """Client of the processes that examine files. Thread-safe; every call waits for its result.

    The first call starts a process; `close` ends them all.
    """

    def __init__(self, limits: JobLimits = _LIMITS) -> None:
        self._limits = limits
        self._pool = ConfinedPool(
            "backend.resources.attachments.program", name="attachments", size=limits.processes, spare=False
        )

    def examine(self, descriptor: int, *, owner: str, halt: threading.Event | None = None) -> Examined:
        """Returns the type of an open regular file, by its content.

        Raises:
            AttachmentRefusedError: the file is of another type, malformed or over a bound; the text says which.
            ConfinedError: `halt` was set, or the inspector is closed.
            InspectorUnavailableError: no process could be started.
        """
        size = os.fstat(descriptor).st_size
        if size > MOST_DOCUMENT_BYTES:
            raise AttachmentRefusedError(f"has {size:,} bytes; a file may have at most {MOST_DOCUMENT_BYTES:,}")
        try:
            answer = self._pool.run(
                "examine",
                {"most_bytes": MOST_DOCUMENT_BYTES},
                owner=owner,
                cpu_seconds=self._limits.cpu_seconds(size),
                memory_bytes=self._limits.memory_mb * 2**20,
                descriptors=[descriptor],
                halt=halt,
            )
        except ConfinedError as error:
            if error.kind in _OVER_LIMIT:
                raise AttachmentRefusedError(f"cannot be examined within {self._limits.in_words(size)}") from None
            if error.kind in {FailureKind.UNAVAILABLE, FailureKind.FAILED}:
                raise InspectorUnavailableError(str(error)) from None
            raise
        return _judged(answer, size)

    @property
    def pids(self) -> list[int]:
        """Ids of the processes, which may be idle."""
        return self._pool.pids

    def close(self) -> None:
        """Ends the processes; later calls fail. Idempotent."""
        self._pool.close()


def _judged(answer: Any, size: int) -> Examined:
    """Returns the type of a file; the answer is untrusted, because its process has read an untrusted file."""
    match answer:
        case {"media_type": None, "sha256": str()}:
            raise AttachmentRefusedError(f"is of another type; it must be {ALLOWED}")
        case {"media_type": str(media_type), "sha256": str(), "problem": str(problem)} if media_type in _TYPES:
            raise AttachmentRefusedError(f"cannot be sent as {_TYPES[media_type]}: {problem[:100]}")
        case {"media_type": "application/pdf", "sha256": str(digest), "problem": None, "pages": int(pages)}:
            if pages > MOST_PAGES:
                raise AttachmentRefusedError(f"has {pages:,} pages; a PDF may have at most {MOST_PAGES:,}")
            return Examined(PDF, digest)
        case {
            "media_type": str(media_type),
            "sha256": str(digest),
            "problem": None,
            "width": int(width),
            "height": int(height),
        } if media_type in _TYPES:
            if size > MOST_PICTURE_BYTES:
                raise AttachmentRefusedError(f"has {size:,} bytes; a picture may have at most {MOST_PICTURE_BYTES:,}")
            if max(width, height) > MOST_SIDE:
                raise AttachmentRefusedError(
                    f"has {width:,} x {height:,} pixels; a picture may have at most {MOST_SIDE:,} x {MOST_SIDE:,}"
                )
            return Examined(media_type, digest)
    raise InspectorUnavailableError("the process that examines files gave a malformed answer")
