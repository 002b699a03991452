"""Answers of the program that examines files, run in the process of the tests."""

import hashlib
import tempfile
from typing import Any

import pytest

from backend.resources.attachments.program import examine
from tests.support.attachable import gif, jpeg, pdf, pdf_of, png, webp


def examined(data: bytes, most: int = 1_000_000) -> Any:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        return examine({"most_bytes": most}, [file.fileno()])


def test_the_content_decides_on_the_type() -> None:
    types = [examined(data)["media_type"] for data in (png(), jpeg(), gif(), webp(), pdf(), b"text", b"")]
    assert types == ["image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf", None, None]
    assert examined(pdf())["sha256"] == hashlib.sha256(pdf()).hexdigest()


@pytest.mark.parametrize("pages", [1, 3, 250])
def test_pages_are_counted(pages: int) -> None:
    assert (examined(pdf(pages))["pages"], examined(pdf(pages))["problem"]) == (pages, None)


def test_pages_are_counted_whatever_the_tree_says_of_itself() -> None:
    lying = pdf(120).replace(b"/Count 120", b"/Count 001")
    assert examined(lying)["pages"] == 120


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (pdf()[:-20], "it is malformed, or ends too early"),
        (pdf(0), "it has no pages"),
        (b"%PDF-1.7\nnothing\n%%EOF", "it is malformed"),
        (pdf_of([b"<< /Type /Pages /Kids [2 0 R] /Count 1 >>"]), "it is malformed"),
        (pdf_of([b"<< /Type /Pages /Kids 5 >>"]), "it is malformed"),
        (pdf_of([b"<< /Type /Pages /Kids [9 0 R] >>"]), "it is malformed"),
        (
            pdf_of(
                [
                    b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
                    b"<< /Type /Page >>",
                    b"<< /Filter /Standard /V 1 /R 2 /O <00> /U <00> /P 0 >>",
                ],
                b"/Encrypt 4 0 R",
            ),
            "it is encrypted",
        ),
        (png()[:-5], "it is malformed, or ends too early"),
        (png(animated=True), "it is animated"),
    ],
)
def test_a_file_that_cannot_be_sent_has_a_problem(data: bytes, problem: str) -> None:
    assert examined(data)["problem"] == problem


def test_a_tree_in_which_pages_are_repeated_is_not_followed_for_ever() -> None:
    # Each of 40 levels names the next one twice: 2**40 pages in a few kilobytes.
    levels = [b"<< /Type /Pages /Kids [%d 0 R %d 0 R] >>" % (number, number) for number in range(3, 43)]
    assert examined(pdf_of([*levels, b"<< /Type /Page >>"]))["problem"] == "it is malformed"
