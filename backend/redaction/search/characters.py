"""Reads every text in Latin-1, with the characters that look like ASCII ones as these."""

import re
import unicodedata
from collections.abc import Mapping
from typing import Final

from backend.redaction.search.linear_search import search_for

_BEYOND_ASCII: Final = re.compile(r"[^\x00-\x7f]+")


def normalised(text: str) -> str:
    """Returns the text as rules read it: the same length, in Latin-1.

    Digits, dashes, spaces, quotes and what looks like an ASCII letter become their ASCII forms; every other character
    beyond Latin-1 becomes a letter. Letters that stand for a digit
    in a group of digits become that digit.
    """
    plain = text if text.isascii() else _BEYOND_ASCII.sub(lambda found: found[0].translate(_PLAIN), text)
    if _any_mistaken(b"\n" + plain.encode("latin-1") + b"\n", 0) >= 0:
        return _MISTAKEN.sub(lambda found: found[0].translate(_AS_DIGITS), plain)
    return plain


class _Plain(dict[int, str]):
    """The plain form of each character; of those that are not listed, their compatible form, or a letter."""

    def __missing__(self, code: int) -> str:
        compatible = unicodedata.normalize("NFKC", chr(code))
        decimal = unicodedata.decimal(chr(code), None)
        if decimal is not None:
            plain = str(decimal)
        else:
            plain = compatible if len(compatible) == 1 and compatible.isascii() else "\u00ff"
        self[code] = plain
        return plain


def _plain() -> Mapping[int, str]:
    table = _Plain({character: chr(character) for character in range(0x100)})
    # Bytes that are not valid in the encoding of their file.
    table.update({0xDC00 + byte: chr(byte) for byte in range(0x80, 0x100)})
    table.update(dict.fromkeys([*range(0x2010, 0x2016), 0x2043, 0x2212, 0xFE58, 0xFE63, 0xFF0D], "-"))
    table.update(dict.fromkeys([0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000], " "))
    table.update(dict.fromkeys([0x2018, 0x2019, 0x201B, 0x2032], "'"))
    table.update(dict.fromkeys([0x85, 0x201C, 0x201D, 0x201E, 0x2028, 0x2029], '"'))
    for letters, alike in _LOOK_ALIKES:
        table.update({ord(letter): plain for letter, plain in zip(letters, alike, strict=True)})
    return table


# Letters of Cyrillic and Greek that look like Latin ones.
_LOOK_ALIKES: Final = (
    ("\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425\u0405\u0406\u0408", "ABEKMHOPCTXSIJ"),
    ("\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0455\u0456\u0458", "aeopcyxsij"),
    ("\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03bf", "ABEZHIKMNOPTYXo"),
)
_PLAIN: Final = _plain()
# A letter that is read as a digit stands in a group that has two digits at least, and no other letter.
_MISTAKABLE: Final = "[^0-9A-Za-z][0-9OoIl]{0,20}(?:[0-9][OoIl]|[OoIl][0-9])[0-9OoIl]{0,20}[^0-9A-Za-z]"
_MISTAKEN: Final = re.compile(
    "(?<![0-9A-Za-z])(?=[OoIl]{0,20}[0-9][OoIl]{0,20}[0-9])[0-9OoIl]{3,24}(?![0-9A-Za-z])", re.ASCII
)
_AS_DIGITS: Final = str.maketrans("OoIl", "0011")
_any_mistaken: Final = search_for(_MISTAKABLE)
