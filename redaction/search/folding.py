"""Folds a text for the search: removes invisible characters, or decodes escaped characters."""

import bisect
import html
import re
import sys
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from redaction.search.linear_search import search_for

# Soft hyphen, zero-width and joining characters, marks of direction, and selectors of variants.
_INVISIBLE: Final = "".join(
    map(
        chr,
        (
            *(0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180E, 0x3164, 0xFEFF, 0xFFA0),
            *range(0x200B, 0x2010),
            *range(0x202A, 0x202F),
            *range(0x2060, 0x2070),
            *range(0xFE00, 0xFE10),
        ),
    )
)
_UNSEEN: Final = re.compile(f"[{_INVISIBLE}]+")
# Domains behind an at sign in quoted-printable: `width=40px` has none.
_DOMAIN_AHEAD: Final = (
    r"[A-Za-z][0-9A-Za-z-]{1,62}(?:(?:\.|=2[Ee])[0-9A-Za-z-]{1,63}){0,6}(?:\.|=2[Ee])"
    r"(?:com|org|net|edu|gov|info|biz|example|test|io|dev|app|co|eu|[a-z]{2})(?![\w(-])"
)
# Escapes of a character in source texts, markup and URLs. Each alternative begins with its possible first characters,
# which `re` finds faster than lookbehinds.
_ESCAPE: Final = re.compile(
    r"\\\\{0,3}(?:u\{0{0,4}(?P<braced>[0-9A-Fa-f]{1,6})\}|u{1,2}(?P<four>[0-9A-Fa-f]{4})|U(?P<eight>000[0-9A-Fa-f]{5})"
    r"|x\{0{0,4}(?P<perl>[0-9A-Fa-f]{1,6})\}|x(?P<two>[0-9A-Fa-f]{2})|(?P<octal>100|05[5-7])"
    # Escapes of CSS and SQL, of RTF, and by the name of the character.
    r"|0{0,4}(?P<short>40|2[Ee])(?:(?![0-9A-Fa-f]) ?|(?<=00..))|'(?P<rtf>40|2[Ee])|N\{(?P<name>[A-Z][A-Z -]{1,40})\}"
    r"|(?P<mark>[!-&(-/:-@\[\]-`{-~]))"
    r"|&(?:#(?P<decimal>[0-9]{1,7})|#[xX](?P<hexadecimal>[0-9A-Fa-f]{1,6})|(?P<entity>[A-Za-z][A-Za-z0-9]{1,31})(?=;));?"
    r"|%(?P<percent>[2-7][0-9A-Fa-f])"
    # Quoted-printable, with its soft line breaks.
    rf"|=(?:(?P<at>40)(?=(?:=\r?\n)?{_DOMAIN_AHEAD})|(?P<quoted>2[BDEbde]|5[Ff])(?=[0-9A-Za-z=])|(?<=[^\s=]=)\r?\n(?=\S))"
    # Signs written out for human readers, comments in markup, and passthrough text of AsciiDoc.
    r"| {0,2}[(\[{] ?(?P<word>at|AT|dot|DOT) ?[)\]}] {0,2}(?=[0-9A-Za-z])"
    r"|<!--(?<=[0-9A-Za-z.@_-]<!--)[^<>]{0,80}-->(?=[0-9A-Za-z.@_-])"
    r"|\+\+\+(?P<passed>[@.])\+\+\+"
    # Marks of emphasis within a word.
    r"|\*(?<=[^\s*]\*)\*{0,2}(?=[^\s*])|~(?<=[^\s~]~)~(?=[^\s~])|`(?<=[^\s`]`)(?=[^\s`])"
)
# Texts without a match hold no escape that hides a value.
_HIDING: Final = search_for(
    r"\\(?:[uU]\{?00|x\{?[0-9A-Fa-f]|100|05[567]|N\{[A-Z]|0{0,4}40|'40|[@._+#/:-])"
    r"|&(?:#[0-9xX]|commat;|period;|lowbar;|UnderBar;|hyphen;|dash;|num;|plus;|sol;|colon;|nbsp;|shy;|zwn?j;|lpar;|rpar;|percnt;"
    r"|Tab;|NewLine;|bsol;|ZeroWidthSpace;|NoBreak;|amp;(?:#|commat;|period;)"
    r"|[A-Za-z](?:uml|acute|grave|circ|tilde|ring|cedil|caron|slash|strok|ogon);|szlig;)"
    # Digits, letters, and the punctuation of values; other escapes are common in URLs.
    r"|[0-9A-Za-z_]=40(?:=\r?\n)?[A-Za-z]"
    r"|[0-9A-Za-z_] {0,2}[(\[{] ?(?:at|AT) ?[)\]}] {0,2}[0-9A-Za-z]|<!--[^<>]{0,80}-->[0-9A-Za-z@.]|\+\+\+[@.]\+"
    r"|%3[0-9]|%2[Bb][0-9]|%2[DdEe]|[0-9]%2[08]|%4[1-9A-Fa-f]|%5[0-9Aa]|%6[1-9A-Fa-f]|%7[0-9Aa]"
)
_HIDING_MARKS: Final = (
    "\\",
    "&",
    "%",
    "=40",
    "<!--",
    "+++",
    "at)",
    "at]",
    "at}",
    "at )",
    "at ]",
    "AT)",
    "AT]",
    "AT )",
    "AT ]",
)
# Marks of emphasis within a word, and words with such marks that may be an address or a number.
_EMPHASIS: Final = search_for(r"[0-9A-Za-z.@-](?:\*{1,3}|~~|`)[0-9A-Za-z.@-]")
_EMPHASISED: Final = re.compile(
    r"[@0-9][0-9A-Za-z.-]{0,60}+(?:\*{1,3}|~~|`)[0-9A-Za-z.@-]|[0-9A-Za-z.](?:\*{1,3}|~~|`)[0-9A-Za-z.+-]{0,60}+@"
)
_LONGEST_EMPHASISED: Final = 64


@dataclass(frozen=True, slots=True)
class Folded:
    """A shortened text, with the positions at which characters are missing."""

    text: str
    places: list[int]
    missing: list[int]
    """Number of characters that are missing before each position, up to the next."""

    def original(self, place: int) -> int:
        """Returns the position in the original of a position in the folded text."""
        at = bisect.bisect_right(self.places, place)
        return place + self.missing[at - 1] if at else place

    def folded(self, place: int) -> int:
        """Returns the position in the folded text of a position in the original, or of the next kept character."""
        low, high = 0, len(self.text)
        while low < high:
            middle = (low + high) // 2
            if self.original(middle) < place:
                low = middle + 1
            else:
                high = middle
        return low


def without_unseen(text: str) -> Folded | None:
    """Returns a text without invisible characters; None if it has none."""
    if text.isascii() or not any(character in text for character in _INVISIBLE):
        return None
    return _folded(text, [(*found.span(), "") for found in _UNSEEN.finditer(text)])


def with_decoded_escapes(text: str) -> Folded | None:
    """Returns a text with all forms of escapes decoded; None if it has no escape that may hide a value."""
    if not has_hiding_escape(text):
        return None
    return _folded(text, [(*found.span(), _character(found)) for found in _ESCAPE.finditer(text)])


def has_hiding_escape(text: str) -> bool:
    """Returns whether a text has an escape, or a mark of emphasis, that may hide a value."""
    raw = b""
    if any(mark in text for mark in _HIDING_MARKS):
        raw = text.encode("latin-1", "replace")
        if _HIDING(raw, 0) >= 0:
            return True
    if "*" not in text and "`" not in text and "~" not in text:
        return False
    first = _EMPHASIS(raw or text.encode("latin-1", "replace"), 0)
    return first >= 0 and _EMPHASISED.search(text, max(first - _LONGEST_EMPHASISED, 0)) is not None


def _character(found: re.Match[str]) -> str:
    """Returns the character of an escape, "" for a mark of emphasis, or other text unchanged."""
    group = found.lastgroup
    if group is None:
        return ""
    digits = found[group]
    if group in {"mark", "passed"}:
        return digits
    if group == "word":
        return "@" if digits in {"at", "AT"} else "."
    if group == "name":
        try:
            return unicodedata.lookup(digits)
        except KeyError:
            return found[0]
    if group == "entity":
        character = html.unescape(f"&{digits};")
        return character if len(character) == 1 else found[0]
    code = int(digits, 10 if group == "decimal" else 8 if group == "octal" else 16)
    return chr(code) if code <= sys.maxunicode else found[0]


def _folded(text: str, replacements: Iterable[tuple[int, int, str]]) -> Folded:
    """Returns a text with replacements, each given by start, end and a text that is not longer."""
    parts: list[str] = []
    places: list[int] = []
    missing: list[int] = []
    done = gone = 0
    for start, end, new in replacements:
        parts += text[done:start], new
        done = end
        if less := end - start - len(new):
            gone += less
            places.append(end - gone)
            missing.append(gone)
    parts.append(text[done:])
    return Folded("".join(parts), places, missing)
