"""Detects the encoding of a text file from all of its bytes, in constant memory."""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

BLOCK: Final = 256 * 1024
# Beginnings of files that decode as text, but hold encoded or compressed content that no rule can read.
_UNREADABLE: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:%!PS|\{\\rtf|-----BEGIN PGP MESSAGE|begin(?:-base64)? [0-7]{3,4} \S)"
    rb"|\x89PNG|GIF8|PK\x03\x04|PAR1|BZh[1-9]1AY|\x1f[\x8b\x9d]"
)
# PDF readers accept other bytes before this mark.
_PDF: Final = re.compile(rb"(?:\A|[^\w`'\"])%PDF-[0-9]")
_HEAD: Final = 1_024
_NOT_LATIN: Final = bytes([*range(9), 0x0B, *range(0x0E, 0x1B), *range(0x1C, 0x20), 0x7F, 0x81, 0x8D, 0x8F, 0x90, 0x9D])

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")
_INVALID: Final = re.compile(r"[\udc80-\udcff]")
# Includes invalid bytes.
_BEYOND_ASCII: Final = re.compile(r"[^\x00-\x7f]")


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


# UTF-8 with invalid bytes, each of which is read as a lone surrogate and written back unchanged.
_MIXED: Final = "utf_8_and_bytes"
_UTF_8: Final = codecs.lookup("utf-8")


class _MixedDecoder(codecs.BufferedIncrementalDecoder):
    """Decoder of UTF-8 that keeps invalid bytes, whatever error handling is requested."""

    # The name of this method is the base class's.
    def _buffer_decode(self, data: "ReadableBuffer", errors: str, final: bool) -> tuple[str, int]:  # noqa: ARG002 - as above
        return codecs.utf_8_decode(data, "surrogateescape", final)


def _encode_mixed(text: str, _: str = "strict") -> tuple[bytes, int]:
    return _UTF_8.encode(text, "surrogateescape")


def _decode_mixed(data: "ReadableBuffer", _: str = "strict") -> tuple[str, int]:
    return _UTF_8.decode(data, "surrogateescape")


def _find_mixed(name: str) -> codecs.CodecInfo | None:
    if name != _MIXED:
        return None
    return codecs.CodecInfo(_encode_mixed, _decode_mixed, incrementaldecoder=_MixedDecoder, name=_MIXED)


codecs.register(_find_mixed)
_UTF_16: Final = (Encoding("utf-16-le", codecs.BOM_UTF16_LE), Encoding("utf-16-be", codecs.BOM_UTF16_BE))


def legible(text: str) -> str:
    """Returns a text with bytes that are invalid in its encoding read as Windows-1252."""
    return _INVALID.sub(lambda found: bytes([ord(found[0]) - 0xDC00]).decode("cp1252", "replace"), text)


def text_encoding(source: Path, *, head: bool = False) -> Encoding | None:
    """Returns the encoding of a file: by its mark, else UTF-8, else Windows-1252.

    A file with some invalid bytes is still UTF-8 if most of its characters beyond ASCII are valid.
    The head of a file may end in the middle of a character. Windows-1252 is Latin-1 with printable characters in place
    of most control characters. None for binary files.
    """
    with source.open("rb") as file:
        first = file.read(_HEAD)
    if first.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)) or _UNREADABLE.match(first) or _PDF.search(first):
        return None
    for encoding in _UTF_16:
        if first.startswith(encoding.mark):
            return encoding if _decodes(encoding, source, head) else None
    # Some programs write the mark before a text in another encoding.
    mark = codecs.BOM_UTF8 if first.startswith(codecs.BOM_UTF8) else b""
    utf8 = Encoding("utf-8", mark)
    if _decodes(utf8, source, head):
        return utf8
    mixed = Encoding(_MIXED, mark)
    if _is_mostly_utf8(mixed, source, head):
        return mixed
    return Encoding("cp1252", mark) if _is_latin(source) else None


def _decodes(encoding: Encoding, source: Path, head: bool) -> bool:
    try:
        return all("\0" not in block for block in encoding.read(source, head=head))
    except UnicodeError:
        return False


def _is_mostly_utf8(encoding: Encoding, source: Path, head: bool) -> bool:
    beyond = invalid = 0
    for block in encoding.read(source, head=head):
        if _CONTROL.search(block):
            return False
        invalid += len(_INVALID.findall(block))
        beyond += len(_BEYOND_ASCII.findall(block))
    return beyond > 2 * invalid


def _is_latin(source: Path) -> bool:
    with source.open("rb") as file:
        while block := file.read(BLOCK):
            if len(block.translate(None, _NOT_LATIN)) != len(block):
                return False
    return True
