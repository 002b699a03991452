"""Tells a message of electronic mail, and a mailbox, by how they begin, whatever their name is."""

import re
from pathlib import Path
from typing import Final

_HEAD: Final = 65_536
_FIELD: Final = re.compile(rb"[!-9;-~]{1,80}:[ \t\r]")
# What says that a text has parts or encodings; without it, it is read as it stands.
_MIME: Final = re.compile(rb"(?:mime-version|content-type|content-transfer-encoding):", re.IGNORECASE)


def holds_mail(source: Path) -> bool:
    """Returns whether a file begins with the header of a message that may have parts in encodings of mail."""
    with source.open("rb") as file:
        lines = file.read(_HEAD).split(b"\n")
    first = int(lines[0].startswith(b"From "))
    mime = False
    for line in lines[first:]:
        if not line.strip():
            break
        if line[:1] in {b" ", b"\t"} and line is not lines[first]:
            continue
        if _FIELD.match(line + b"\r") is None:
            return False
        mime = mime or _MIME.match(line) is not None
    return mime
