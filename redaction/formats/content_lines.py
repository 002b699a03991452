"""Finds the values of vCard, iCalendar and LDIF: lines `NAME;PARAMETER=…:value`, which may be folded and encoded."""

import base64
import binascii
import quopri
import re
from collections.abc import Iterator
from typing import Final

from redaction.formats.labelled_text import Labelled, as_text

_LINE: Final = re.compile(
    r'^(?P<name>(?:[\w-]+\.)?[A-Za-z][\w-]*)(?P<parameters>(?:;(?:[^":;\r\n]|"[^"\r\n]*"|\r?\n[ \t])*)*)'
    r"(?P<colon>::?)(?P<value>[^\r\n]*(?:\r?\n[ \t][^\r\n]*)*)",
    re.MULTILINE,
)
_FOLD: Final = re.compile(r"\r?\n[ \t]")
_SOFT_BREAK: Final = re.compile(r"(?:[^\r\n]*=\r?\n)*[^\r\n]*")
_COMMON_NAME: Final = re.compile(r';CN=("[^"]*"|[^":;]*)', re.IGNORECASE)
_PIECE: Final = re.compile(r"(?:[^\\;,]|\\.)+", re.DOTALL)
_OF_NAME: Final = re.compile(r"(?:^|,) ?([A-Za-z]+)=((?:[^\\,+]|\\.)*)")
_ESCAPED: Final = re.compile(r"\\(.)")
_LABELS: Final = {
    "FN": "full name", "N": "full name", "NICKNAME": "full name", "SORT-STRING": "full name", "CN": "full name",
    "DISPLAYNAME": "full name", "SN": "surname", "GIVENNAME": "given name", "GN": "given name", "AGENT": "full name",
    "TEL": "phone", "TELEPHONENUMBER": "phone", "MOBILE": "phone", "HOMEPHONE": "phone", "FACSIMILETELEPHONENUMBER":
    "fax", "PAGER": "phone", "EMAIL": "email", "MAIL": "email", "ADR": "address", "LABEL": "address", "BDAY":
    "date of birth", "BIRTHPLACE": "birth place", "DEATHPLACE": "birth place", "GEO": "geo location", "ORG": "company",
    "STREET": "street", "L": "city", "POSTALCODE": "postal code", "POSTALADDRESS": "address", "HOMEPOSTALADDRESS":
    "address", "REGISTEREDADDRESS": "address", "O": "company", "USERPASSWORD": "password", "MANAGER": "full name",
    "SECRETARY": "full name", "DATEOFBIRTH": "date of birth",
}  # fmt: skip
# Properties with several values in one line; in other lines the separators are text.
_STRUCTURED: Final = frozenset({"N", "ADR", "ORG", "NICKNAME", "GEO"})
# Properties whose values are words of the format.
_OF_THE_FORMAT: Final = frozenset(
    (  # noqa: SIM905 - a table is read more easily as words
        "BEGIN END VERSION PRODID CALSCALE METHOD CLASS TRANSP STATUS ACTION KIND OBJECTCLASS CHANGETYPE"
    ).split()
)
_LEGAL_IN_TEXT: Final = re.compile(r"[^\x00-\x08\x0b\x0c\x0e-\x1f]*")


def find_content_lines(text: str) -> Iterator[Labelled]:
    """Yields the value of each `NAME:value` line, with its label; base 64 without text is yielded as unreadable."""
    place = 0
    while (line := _LINE.search(text, place)) is not None:
        place = line.end()
        name = line["name"].rpartition(".")[2].upper()
        parameters = _FOLD.sub("", line["parameters"]).upper()
        start, value = line.start("value"), line["value"]
        yield from _common_name(line)
        if "QUOTED-PRINTABLE" in parameters:
            value = _SOFT_BREAK.match(text, start)[0]  # type: ignore[index]  # it matches nothing too
            place = start + len(value)
        if place <= line.start():
            return
        yield from _values(name, parameters, line["colon"], value, start)


def _common_name(line: re.Match[str]) -> Iterator[Labelled]:
    if (found := _COMMON_NAME.search(line["parameters"])) is not None:
        start = line.start("parameters") + found.start(1)
        raw = found[1]
        quoted = raw.startswith('"')
        inner = _FOLD.sub("", raw.strip('"'))
        yield Labelled(start + quoted, start + len(raw) - quoted, inner, "full name")


def _values(name: str, parameters: str, colon: str, value: str, start: int) -> Iterator[Labelled]:
    if name in _OF_THE_FORMAT:
        return
    label = _LABELS.get(name, name.removeprefix("X-"))
    end = start + len(value)
    plain = _FOLD.sub("", value)
    if "QUOTED-PRINTABLE" in parameters:
        read = quopri.decodestring(value.encode("utf-8", "surrogateescape")).decode("utf-8", "replace")
        yield Labelled(
            start, end, read.replace(";", " ") if name in _STRUCTURED else read, label, _encode_quoted_printable
        )
    elif colon == "::" or re.search(r"ENCODING=(?:B\b|BASE64)", parameters):
        yield Labelled(start, end, decoded_text(plain), label, encode_base64)
    elif plain.lower().startswith("data:") and ";base64," in plain[:200].lower():
        yield Labelled(start, end, None)
    elif name == "DN":
        for part in _OF_NAME.finditer(value):
            yield Labelled(
                start + part.start(2), start + part.end(2), _FOLD.sub("", part[2]), _LABELS.get(part[1].upper(), "")
            )
    elif name in _STRUCTURED:
        for piece in _PIECE.finditer(value):
            yield Labelled(start + piece.start(), start + piece.end(), _unescaped(_FOLD.sub("", piece[0])), label)
    else:
        shown = len(plain) - len(plain.lstrip(" "))
        written = encode_uri if plain[shown:].lower().startswith("mailto:") else as_text
        yield Labelled(start + shown, end, _unescaped(plain[shown:]), label, written)


def encode_uri(new: str) -> str:
    """Returns a swept URI, with a mail address in place of `[EMAIL_ADDRESS]` that is legal in a URI."""
    return new.replace("[EMAIL_ADDRESS]", "EMAIL_ADDRESS@redacted.invalid")


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: "\n" if found[1] in "nN" else found[1], text) if "\\" in text else text


def decoded_text(value: str) -> str | None:
    """Returns the text encoded in base 64; None for other values."""
    try:
        text = base64.b64decode(value.strip()).decode()
    except (binascii.Error, ValueError):
        return None
    return text if _LEGAL_IN_TEXT.fullmatch(text) else None


def encode_base64(new: str) -> str:
    """Returns a text in base 64 behind a space, which readers strip."""
    return " " + base64.b64encode(new.encode()).decode("ascii")


def _encode_quoted_printable(new: str) -> str:
    return quopri.encodestring(new.encode()).decode("ascii").replace("=\n", "").replace("\n", "=0A")
