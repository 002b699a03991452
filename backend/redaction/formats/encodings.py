"""Detects the encoding of a file of text by all of its bytes, in constant memory."""

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

BLOCK: Final = 256 * 1024
# Files that decode as text, but hold encoded or compressed content that no rule can read.
_UNREADABLE: Final = (b"%PDF-", b"%!PS", b"{\\rtf", b"\x89PNG", b"GIF8", b"PK\x03\x04", b"PAR1")
_NOT_LATIN: Final = bytes([*range(9), 0x0B, *range(0x0E, 0x1B), *range(0x1C, 0x20), 0x7F, 0x81, 0x8D, 0x8F, 0x90, 0x9D])


@dataclass(frozen=True, slots=True)
class Encoding:
    """A codec of Python, and the byte order mark of a file."""

    name: str
    mark: bytes = b""

    def read(self, source: Path, *, head: bool = False) -> Iterator[str]:
        """Yields the text after the mark block by block; line ends are unchanged.

        The head of a file may end in the middle of a character, which is left out.
        """
        decoder = codecs.getincrementaldecoder(self.name)("strict")
        with source.open("rb") as file:
            file.seek(len(self.mark))
            while block := file.read(BLOCK):
                yield decoder.decode(block)
        if not head:
            yield decoder.decode(b"", final=True)


_MARKED: Final = (
    Encoding("utf-8", codecs.BOM_UTF8),
    Encoding("utf-16-le", codecs.BOM_UTF16_LE),
    Encoding("utf-16-be", codecs.BOM_UTF16_BE),
)


def text_encoding(source: Path, *, head: bool = False) -> Encoding | None:
    """Returns the encoding in which all bytes of a file are valid: by its mark, else UTF-8, else Windows-1252.

    The head of a file may end in the middle of a character. Windows-1252 is Latin-1 with printable characters in place
    of most control characters. None for binary files.
    """
    with source.open("rb") as file:
        first = file.read(8)
    if first.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE, *_UNREADABLE)):
        return None
    for encoding in _MARKED:
        if first.startswith(encoding.mark):
            return encoding if _decodes(encoding, source, head) else None
    utf8 = Encoding("utf-8")
    if _decodes(utf8, source, head):
        return utf8
    return Encoding("cp1252") if _is_latin(source) else None


def _decodes(encoding: Encoding, source: Path, head: bool) -> bool:
    try:
        return all("\0" not in block for block in encoding.read(source, head=head))
    except UnicodeError:
        return False


def _is_latin(source: Path) -> bool:
    with source.open("rb") as file:
        while block := file.read(BLOCK):
            if len(block.translate(None, _NOT_LATIN)) != len(block):
                return False
    return True
