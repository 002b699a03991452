"""Normalises texts for the rules: to Latin-1, with look-alikes as ASCII, and whole numbers without exponents."""

import re
import unicodedata
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from redaction.search.linear_search import search_for

_BEYOND_LATIN: Final = re.compile(r"[^\x00-\xff]+")

# Letters of Cyrillic and Greek that look like Latin ones.
_LOOK_ALIKES: Final = (
    ("\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425\u0405\u0406\u0408", "ABEKMHOPCTXSIJ"),
    ("\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0455\u0456\u0458", "aeopcyxsij"),
    ("\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03bf", "ABEZHIKMNOPTYXo"),
)
_NORMALISED_BYTES: Final = bytes.maketrans(b"\x85\xa0", b'" ')
# A letter is read as a digit only in a group with at least two digits and no other letters.
_MISTAKABLE: Final = "[^0-9A-Za-z][0-9OoIl]{0,20}(?:[0-9][OoIl]|[OoIl][0-9])[0-9OoIl]{0,20}[^0-9A-Za-z]"
_MISTAKEN: Final = re.compile(
    "(?<![0-9A-Za-z])(?=[OoIl]{0,20}[0-9][OoIl]{0,20}[0-9])[0-9OoIl]{3,24}(?![0-9A-Za-z])", re.ASCII
)
_AS_DIGITS: Final = str.maketrans("OoIl", "0011")
_find_mistaken_letter: Final = search_for(_MISTAKABLE)

_LONGEST: Final = 20
_EXPONENT: Final = re.compile(r'(["\s]*)([-+]?[0-9]{1,40}(?:\.[0-9]{0,40})?[eE][-+]?[0-9]{1,2})(["\s]*)')
_find_exponent: Final = search_for("[0-9.][eE][-+]?[0-9]")


def normalised(text: str) -> str:
    """Returns a text in the Latin-1 form that rules read, with unchanged length.

    Digits, dashes, spaces, quotes and look-alikes of ASCII letters become ASCII; every other character beyond Latin-1
    becomes "ÿ". Letters that stand for a digit in a group of digits become the digit.
    """
    if text.isascii():
        raw = text.encode("ascii")
        normalised_text = text
    else:
        if _BEYOND_LATIN.search(text) is not None:
            text = _BEYOND_LATIN.sub(lambda found: found[0].translate(_NORMALISED), text)
        raw = text.encode("latin-1").translate(_NORMALISED_BYTES)
        normalised_text = raw.decode("latin-1")
    raw = b"\n" + raw + b"\n"
    place = _find_mistaken_letter(raw, 0)
    return normalised_text if place < 0 else _with_digits(normalised_text, raw, place)


def _with_digits(normalised_text: str, raw: bytes, place: int) -> str:
    """Returns the text with letters in groups of digits as digits, from a position on; `raw` has line breaks around."""
    parts: list[str] = []
    done = 0
    while place >= 0:
        end = place + 1
        # The match includes the character before the group.
        if (found := _MISTAKEN.match(normalised_text, place)) is not None:
            end = found.end()
            parts += normalised_text[done:place], found[0].translate(_AS_DIGITS)
            done = end
        place = _find_mistaken_letter(raw, end)
    parts.append(normalised_text[done:])
    return "".join(parts)


class _NormalisedCharacters(dict[int, str]):
    """Normalised form by code point; an unlisted character becomes a digit or ASCII character by NFKC, else "ÿ"."""

    def __missing__(self, code: int) -> str:
        compatible = unicodedata.normalize("NFKC", chr(code))
        decimal = unicodedata.decimal(chr(code), None)
        if decimal is not None:
            normal = str(decimal)
        else:
            normal = compatible if len(compatible) == 1 and compatible.isascii() else "\u00ff"
        self[code] = normal
        return normal


def _normalised_characters() -> Mapping[int, str]:
    table = _NormalisedCharacters({character: chr(character) for character in range(0x100)})
    # Bytes that are invalid in their file's encoding.
    table.update({0xDC00 + byte: chr(byte) for byte in range(0x80, 0x100)})
    table.update(dict.fromkeys([*range(0x2010, 0x2016), 0x2043, 0x2212, 0xFE58, 0xFE63, 0xFF0D], "-"))
    table.update(dict.fromkeys([0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000], " "))
    table.update(dict.fromkeys([0x2018, 0x2019, 0x201B, 0x2032], "'"))
    table.update(dict.fromkeys([0x201C, 0x201D, 0x201E, 0x2028, 0x2029], '"'))
    for letters, alike in _LOOK_ALIKES:
        table.update({ord(letter): normal for letter, normal in zip(letters, alike, strict=True)})
    return table


_NORMALISED: Final = _normalised_characters()


def has_exponents(text: str) -> bool:
    """Returns whether a text may hold a number with an exponent."""
    return _find_exponent(text.encode("latin-1", "replace"), 0) >= 0


def without_exponent(text: str) -> str:
    """Returns a whole number with an exponent as digits alone, within its quotes; any other text unchanged."""
    if "e" not in text and "E" not in text:
        return text
    found = _EXPONENT.fullmatch(text)
    if found is None:
        return text
    before, written, after = found.groups()
    number = Decimal(written)
    if not 0 <= number.adjusted() < _LONGEST or number != number.to_integral_value():
        return text
    return f"{before}{number:.0f}{after}"
