"""Labelled texts written by somebody who had not read the rules: documents, paragraphs, and texts without a value.

In the files under `handwritten/` each text begins with `=== NAME LANGUAGE`, and each value is `⟦KIND:value⟧`.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.redaction.documents import NEUTRAL, Document

_FOLDER: Final = Path(__file__).parent / "handwritten"
_PARTS: Final = {
    "handwritten documents": ("documents-1", "documents-2"),
    "handwritten paragraphs": ("paragraphs",),
    "handwritten texts without a value": ("without",),
}
_VALUE: Final = re.compile(r"⟦([A-Z]):([^⟧]*)⟧")
_KINDS: Final = {
    "B": "IBAN_CODE", "C": "CREDIT_CARD", "D": "DATE_TIME", "E": "EMAIL_ADDRESS", "I": "NATIONAL_ID", "L": "LOCATION",
    "N": NEUTRAL, "P": "PERSON", "S": "SECRET", "T": "PHONE_NUMBER", "X": "IP_ADDRESS",
}  # fmt: skip


def handwritten() -> dict[str, list[Document]]:
    """Returns the texts by what they are."""
    return {part: [one for file in files for one in _read(file)] for part, files in _PARTS.items()}


def _read(file: str) -> Iterator[Document]:
    content = (_FOLDER / f"{file}.txt").read_text(encoding="utf-8")
    for marked in re.split(r"^=== ", content, flags=re.MULTILINE)[1:]:
        head, _, body = marked.partition("\n")
        name, _, language = head.partition(" ")
        text, labels, place = "", list[tuple[int, int, str]](), 0
        for found in _VALUE.finditer(body):
            text += body[place : found.start()]
            labels.append((len(text), len(text) + len(found[2]), _KINDS[found[1]]))
            text += found[2]
            place = found.end()
        yield Document(name, language, text + body[place:], tuple(labels))
