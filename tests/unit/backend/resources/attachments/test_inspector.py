"""Files examined in a process that can be killed."""

import tempfile
import threading
from collections.abc import Iterator

import pytest

from backend.isolation.confined import ConfinedError
from backend.resources.attachments import inspector as bounds
from backend.resources.attachments.inspector import AttachmentInspector, AttachmentRefusedError, Examined
from backend.settings import JobLimits
from tests.support.attachable import pdf, pdf_of, png


@pytest.fixture(scope="module")
def inspector() -> Iterator[AttachmentInspector]:
    inspector = AttachmentInspector()
    yield inspector
    inspector.close()


def examine(inspector: AttachmentInspector, data: bytes, halt: threading.Event | None = None) -> Examined:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        return inspector.examine(file.fileno(), owner="key", halt=halt)


def test_what_can_be_sent_has_its_type(inspector: AttachmentInspector) -> None:
    assert examine(inspector, png(8_000, 8_000)).media_type == "image/png"
    assert examine(inspector, pdf(bounds.MOST_PAGES)).media_type == "application/pdf"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"words", "is of another type; it must be PNG, JPEG, GIF, WebP or PDF by its content"),
        (bytes(10_000_001), "has 10,000,001 bytes; a file may have at most 10,000,000"),
        (png(extra=bytes(3_750_000)), "has 3,750,0.. bytes; a picture may have at most 3,750,000"),
        (png(50_000, 60_000), "has 50,000 x 60,000 pixels; a picture may have at most 8,000 x 8,000"),
        (pdf(101), "has 101 pages; a PDF may have at most 100"),
        (pdf()[:-20], "cannot be sent as PDF: it is malformed, or ends too early"),
        (png()[:-4], "cannot be sent as PNG: it is malformed, or ends too early"),
    ],
    ids=["type", "bytes", "picture", "pixels", "pages", "pdf", "png"],
)
def test_what_cannot_be_sent_is_refused_with_value_and_bound(
    inspector: AttachmentInspector, data: bytes, reason: str
) -> None:
    with pytest.raises(AttachmentRefusedError, match=f"^{reason}$"):
        examine(inspector, data)


# A page whose dictionaries are nested deep, which takes seconds to read.
SLOW = pdf_of([b"<< /Type /Pages /Kids [3 0 R] >>", b"<< /A %s >>" % (b"<< /B " * 300_000)])


def test_a_document_that_takes_too_long_is_refused() -> None:
    inspector = AttachmentInspector(JobLimits(seconds=0.2, seconds_per_mb=0.0, memory_mb=512))
    try:
        with pytest.raises(AttachmentRefusedError, match=r"^cannot be examined within 0\.2 seconds"):
            examine(inspector, SLOW)
        assert examine(inspector, png()).media_type == "image/png"
    finally:
        inspector.close()


def test_a_halted_examination_has_no_result(inspector: AttachmentInspector) -> None:
    halt = threading.Event()
    halt.set()
    with pytest.raises(ConfinedError):
        examine(inspector, SLOW, halt)
