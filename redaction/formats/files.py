"""Sweeps a file in the format that its content shows, and writes the copy completely or not at all."""

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from redaction.formats.encodings import text_encoding
from redaction.formats.file_names import MAIL, MAILBOX, OFFICE, extension_of
from redaction.formats.outcome import ArchiveBounds, SweptFile, WithheldError, require_parquet
from redaction.formats.text import sweep_text_file

if TYPE_CHECKING:
    from redaction.sweep import Sweep

_PARQUET_MARK: Final = b"PAR1"
_ZIP_MARKS: Final = (b"PK\x03\x04", b"PK\x05\x06")

_HEAD: Final = 65_536
_FIELD: Final = re.compile(rb"[!-9;-~]{1,80}:[ \t\r]")
# Headers of a message with parts or encodings; a text without such headers is read as plain text.
_MIME: Final = re.compile(rb"(?:mime-version|content-type|content-transfer-encoding):", re.IGNORECASE)


def sweep_into(
    sweep: "Sweep", source: Path, target: Path, name: str, bounds: ArchiveBounds, sample_rows: int
) -> SweptFile:
    """Sweeps a file, including members of archives, and writes the swept copy to `target` if the policy redacts.

    Raises:
        WithheldError: the file has content that cannot be swept.
        OSError: reading or writing failed.
    """
    with source.open("rb") as file:
        head = file.read(5)
    extension = extension_of(name)
    if head[:4] == _PARQUET_MARK:
        require_parquet()
        # Imported late: pyarrow is large, and most runs sweep no such file.
        from redaction.formats.parquet import sweep_parquet

        sweep_parquet(sweep, source, target, bounds, sample_rows)
        return "parquet", sweep

    def sweep_member(member: "Sweep", plain: Path, swept: Path, path: str) -> SweptFile:
        return sweep_into(member, plain, swept, path, bounds, sample_rows)

    if head[:4] in _ZIP_MARKS and extension in OFFICE:
        from redaction.formats.office import sweep_office

        sweep_office(sweep, source, target, bounds)
        return "office", sweep
    if extension in MAIL or extension in MAILBOX or holds_mail(source):
        # Imported late: most runs sweep no mail.
        from redaction.formats.mail import MAILBOX_MARK, sweep_mail, sweep_mailbox

        mailbox = head == MAILBOX_MARK
        (sweep_mailbox if mailbox else sweep_mail)(sweep, source, target, bounds, sweep_member)
        return "mail", sweep
    if head[:4] in _ZIP_MARKS and extension == ".zip":
        from redaction.formats.archives import sweep_zip

        sweep_zip(sweep, source, target, bounds, sweep_member)
        return "zip", sweep
    encoding = text_encoding(source)
    if encoding is None:
        raise WithheldError("binary", "binary")
    return sweep_text_file(sweep, source, target, extension, encoding)


def replace_when_complete(target: Path, write: Callable[[Path], SweptFile]) -> SweptFile:
    """Calls `write` with a temporary path beside `target`, and renames the complete file to `target`."""
    partial = target.with_name(target.name + ".partial")
    try:
        swept = write(partial)
        if partial.exists():
            partial.replace(target)
        return swept
    finally:
        with suppress(FileNotFoundError):
            partial.unlink()


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
