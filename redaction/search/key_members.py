"""Finds the private members of cryptographic keys in object form: JSON Web Keys, and RSA keys in XML."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from redaction.rules.rule import Value
from redaction.search.secret_blocks import ENTITY, SCORE

KEY_ELEMENTS: Final = frozenset({"rsakeyvalue", "rsakeypair", "rsaparameters", "dsakeyvalue", "dsaparameters"})
"""XML elements that hold the numbers of a key, in small letters."""
PRIVATE_ELEMENTS: Final = frozenset({"D", "P", "Q", "DP", "DQ", "InverseQ", "X"})
_NAMES_KEYS: Final = frozenset({"kty", "Modulus"})
# Members of JSON Web Keys, and of the parameters of RSA in .NET.
_PRIVATE: Final = frozenset(
    {"d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv", "D", "P", "Q", "DP", "DQ", "InverseQ"}
)
KEY_NAMES: Final = _NAMES_KEYS | _PRIVATE
"""Member names of keys; objects without any of them need no tracking."""
_HOLDS_OBJECTS: Final = "oth"
_LONG: Final = 20
# Characters of the longest key kept whole when a text is swept in parts.
_LONGEST_KEY: Final = 32 * 1024
_DATA: Final = re.compile(rf"[0-9A-Za-z_+/-]{{{_LONG},}}+={{0,2}}")
_QUOTE: Final = r"(?:\\{0,7}[\"'])?"
_BLANKS: Final = r"(?:[ \t\r\n]|\\{1,4}[nrt]){0,40}+"
_TOKEN: Final = re.compile(
    rf"[{{}}]|(?<![\w.-]){_QUOTE}(?P<name>kty|Modulus|InverseQ|oth|priv|d[pq]?|qi?|[kprt]|D[PQ]?|[PQ]){_QUOTE}"
    rf"{_BLANKS}[:=]{_BLANKS}{_QUOTE}(?P<value>[0-9A-Za-z_+/-]++={{0,2}})?"
)
_XML_TOKEN: Final = re.compile(
    r"(?:<|&lt;|\\u003[cC])(?P<close>\\{0,3}/)?(?:\w{1,40}:)?(?:(?P<key>[RD]SA(?:KeyValue|KeyPair|Parameters))"
    rf"|(?:{'|'.join(sorted(PRIVATE_ELEMENTS, key=len, reverse=True))})(?:>|&gt;|\\u003[eE])"
    r"(?P<value>(?:[0-9A-Za-z+/=\s]|\\{1,4}[nrt]){0,20000}+))"
)
_Item = TypeVar("_Item")


@dataclass(slots=True)
class _Object(Generic[_Item]):
    """An open object, with the values that are private if it turns out to be a key."""

    held: list[_Item] = field(default_factory=list)
    # True if the object belongs to a private member of the outer object.
    inside: bool = False
    is_key: bool = False
    key: str = ""


class KeyObjects(Generic[_Item]):
    """Collector of the private values of keys, from the objects, names and values of a text in order."""

    def __init__(self) -> None:
        self._found: list[_Item] = []
        self._open: list[_Object[_Item]] = [_Object()]

    def open(self) -> None:
        """Notes the beginning of an object."""
        above = self._open[-1]
        inside = above.inside or above.key == _HOLDS_OBJECTS
        self._open.append(_Object(above.held, inside=True) if inside else _Object())

    def close(self) -> None:
        """Notes the end of an object."""
        if len(self._open) > 1:
            closed = self._open.pop()
            if closed.is_key:
                self._found += closed.held

    def name(self, name: str) -> None:
        """Notes the name of a member, whose value follows."""
        self._open[-1].key = name
        if name in _NAMES_KEYS:
            self._open[-1].is_key = True

    def value(self, item: _Item) -> None:
        """Notes a value of the last member."""
        last = self._open[-1]
        if last.inside or last.key in _PRIVATE:
            last.held.append(item)

    def private(self, text: Callable[[_Item], str]) -> list[_Item]:
        """Returns the private values noted since the last call; `text` returns the text of a value.

        Values of an object that is still open, or was cut off, before it is known to be a key are recognised by form.
        """
        found, self._found = self._found, []
        for depth, cut in enumerate(self._open):
            found += [item for item in cut.held if (cut.is_key and depth) or is_data(text(item))]
        for cut in self._open:
            cut.held.clear()
        return found


def is_data(text: str) -> bool:
    """Returns whether a text has the form of a key's data."""
    return _DATA.fullmatch(text) is not None and text.lower() != text != text.upper() and any(map(str.isdigit, text))


def find_members(text: str) -> list[Value]:
    """Returns the private values of keys in JSON-like text and in XML, in order."""
    found: list[Value] = []
    if "kty" in text or "Modulus" in text:
        found += _json_members(text)
    if "SAKey" in text or "SAParameters" in text:
        found += _xml_members(text)
    return sorted(set(found))


def open_key(text: str, start: int, end: int) -> int:
    """Returns the start of the line with an object that may be a key and is open at `end`, after `start`.

    Returns `end` if no such object is open, or none within 32 Ki characters.
    """
    low = max(start, end - _LONGEST_KEY)
    # Start of each open object, and whether it has a member name of keys.
    opened: list[tuple[int, bool]] = []
    for token in _TOKEN.finditer(text, low, end):
        if token["name"] is not None:
            if opened:
                opened[-1] = (opened[-1][0], True)
        elif token[0] == "{":
            opened.append((token.start(), False))
        elif opened:
            opened.pop()
    begun = next((place for place, may_be_key in opened if may_be_key), end)
    return end if begun == end else max(text.rfind("\n", low, begun) + 1, start)


def _json_members(text: str) -> list[Value]:
    objects: KeyObjects[tuple[int, int]] = KeyObjects()
    for token in _TOKEN.finditer(text):
        if (name := token["name"]) is not None:
            objects.name(name)
            if token["value"]:
                objects.value(token.span("value"))
        elif token[0] == "{":
            objects.open()
        else:
            objects.close()
    return [(low, high, ENTITY, SCORE) for low, high in objects.private(lambda span: text[slice(*span)])]


def _xml_members(text: str) -> list[Value]:
    found: list[Value] = []
    in_key = False
    for token in _XML_TOKEN.finditer(text):
        if token["key"] is not None:
            in_key = not token["close"]
        elif in_key and not token["close"] and (value := token["value"].rstrip()):
            low = token.start("value") + len(value) - len(value.lstrip())
            found.append((low, token.start("value") + len(value), ENTITY, SCORE))
    return found
