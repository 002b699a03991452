"""Sweeps a file by its content: chooses the format, and writes the copy completely or not at all."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from backend.optional_parts import PARQUET
from backend.redaction.formats.bounds import ArchiveBounds
from backend.redaction.formats.encodings import text_encoding
from backend.redaction.formats.file_extensions import MAIL, MAILBOX, OFFICE, extension_of
from backend.redaction.formats.mail_heads import holds_mail
from backend.redaction.formats.outcome import SweptFile, WithheldError
from backend.redaction.formats.text import sweep_text_file

if TYPE_CHECKING:
    from backend.redaction.sweep import Sweep

_PARQUET_MARK: Final = b"PAR1"
_ZIP_MARKS: Final = (b"PK\x03\x04", b"PK\x05\x06")


def sweep_into(
    sweep: "Sweep", source: Path, target: Path, name: str, bounds: ArchiveBounds, sample_rows: int
) -> SweptFile:
    """Sweeps a file, and writes the swept copy to `target` where the policy redacts; members of archives likewise.

    Raises:
        WithheldError: the file holds what cannot be swept.
        OSError: reading or writing failed.
    """
    with source.open("rb") as file:
        head = file.read(5)
    extension = extension_of(name)
    if head[:4] == _PARQUET_MARK:
        if not PARQUET.installed:
            raise WithheldError("parquet", "not_installed")
        # Imported late: pyarrow is large, and most runs sweep no such file.
        from backend.redaction.formats.parquet import sweep_parquet

        sweep_parquet(sweep, source, target, bounds, sample_rows)
        return "parquet", sweep

    def sweep_member(member: "Sweep", plain: Path, swept: Path, path: str) -> SweptFile:
        return sweep_into(member, plain, swept, path, bounds, sample_rows)

    if head[:4] in _ZIP_MARKS and extension in OFFICE:
        from backend.redaction.formats.office import sweep_office

        sweep_office(sweep, source, target, bounds)
        return "office", sweep
    if extension in MAIL or extension in MAILBOX or holds_mail(source):
        # Imported late: most runs sweep no mail.
        from backend.redaction.formats.mail import MAILBOX_MARK, sweep_mail, sweep_mailbox

        mailbox = head == MAILBOX_MARK
        (sweep_mailbox if mailbox else sweep_mail)(sweep, source, target, bounds, sweep_member)
        return "mail", sweep
    if head[:4] in _ZIP_MARKS and extension == ".zip":
        from backend.redaction.formats.archives import sweep_zip

        sweep_zip(sweep, source, target, bounds, sweep_member)
        return "zip", sweep
    encoding = text_encoding(source)
    if encoding is None:
        raise WithheldError("binary", "binary")
    return sweep_text_file(sweep, source, target, extension, encoding)


def replace_when_complete(target: Path, write: Callable[[Path], SweptFile]) -> SweptFile:
    """Calls `write` with a path beside `target`, and renames the file there to `target` once it is complete."""
    partial = target.with_name(target.name + ".partial")
    try:
        swept = write(partial)
        if partial.exists():
            partial.replace(target)
        return swept
    finally:
        with suppress(FileNotFoundError):
            partial.unlink()
