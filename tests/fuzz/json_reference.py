"""A plain, slow reader of strict JSON: what `edge.codec.json_body` must agree with, written from the contract alone.

Where the two may differ is the byte that a syntax error is told at: this reader knows the first byte of the token that
is wrong and the last byte that was looked at, and any offset between them tells a caller where to look.
"""

import re
import sys
from dataclasses import dataclass, field
from typing import Any

DEEPEST = 1_000
_BLANKS = b" \t\r\n"
_PLAIN = re.compile(rb'[^"\\\x00-\x1f]+')
_ESCAPES = {ord(a): b for a, b in zip('"\\/bfnrt', '"\\/\b\f\n\r\t', strict=True)}
_WORDS: tuple[tuple[bytes, Any], ...] = ((b"true", True), (b"false", False), (b"null", None))


class NotJsonError(Exception):
    """The text stops being JSON in the bytes `first` to `last`."""

    def __init__(self, first: int, last: int) -> None:
        super().__init__(first, last)
        self.first = first
        self.last = last


@dataclass
class Reading:
    """What became of a text: its value, or where it is wrong; all offsets in bytes."""

    value: Any = None
    not_utf8: int | None = None
    wrong: tuple[int, int] | None = None
    too_deep: int | None = None
    named_twice: int | None = None

    @property
    def accepted(self) -> bool:
        return self.not_utf8 is None and self.wrong is None and self.too_deep is None and self.named_twice is None

    def allows(self, offset: int) -> bool:
        """Whether a refusal may name this byte: the first that is wrong; a name only in what else is JSON."""
        if self.not_utf8 is not None:
            return offset == self.not_utf8
        if self.wrong is not None:
            return offset == self.too_deep if self.too_deep else self.wrong[0] <= offset <= self.wrong[1]
        return offset == min(at for at in (self.too_deep, self.named_twice) if at is not None)


def read(body: bytes) -> Reading:
    """Reads a body of at least one byte."""
    try:
        body.decode()
    except UnicodeDecodeError as error:
        return Reading(not_utf8=error.start)
    reader = _Reader(body)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + 3 * len(body))
    try:
        reader.found.value = reader.document()
    except NotJsonError as error:
        reader.found.wrong = error.first, error.last
    finally:
        sys.setrecursionlimit(limit)
    return reader.found


@dataclass
class _Reader:
    body: bytes
    at: int = 0
    depth: int = 0
    found: Reading = field(default_factory=Reading)

    def document(self) -> Any:
        self._blanks()
        if self.at == len(self.body):
            # Nothing but blanks: it is wrong from its beginning.
            raise NotJsonError(0, len(self.body))
        value = self._value()
        self._blanks()
        if self.at != len(self.body):
            raise NotJsonError(self.at, self.at)
        return value

    def _blanks(self) -> None:
        while self._peek() in _BLANKS and self.at < len(self.body):
            self.at += 1

    def _peek(self) -> bytes:
        return self.body[self.at : self.at + 1]

    def _fail(self, first: int | None = None) -> NotJsonError:
        return NotJsonError(self.at if first is None else first, self.at)

    def _value(self) -> Any:
        match self._peek():
            case b"{":
                return self._object()
            case b"[":
                return self._array()
            case b'"':
                return self._string()
        if self._peek() and self._peek() in b"-0123456789":
            return self._number()
        for word, value in _WORDS:
            if self.body.startswith(word, self.at):
                self.at += len(word)
                return value
        raise NotJsonError(self.at, min(self.at + 5, len(self.body)))

    def _open(self) -> None:
        self.depth += 1
        if self.depth > DEEPEST and self.found.too_deep is None:
            self.found.too_deep = self.at
        self.at += 1

    def _close(self) -> None:
        self.depth -= 1
        self.at += 1

    def _comma(self, closing: bytes) -> None:
        start = self.at
        self.at += 1
        self._blanks()
        if self._peek() == closing:
            # The comma is what is too much.
            raise self._fail(start)

    def _array(self) -> list[Any]:
        self._open()
        items: list[Any] = []
        self._blanks()
        while self._peek() != b"]":
            if items:
                if self._peek() != b",":
                    raise self._fail()
                self._comma(b"]")
            items.append(self._value())
            self._blanks()
        self._close()
        return items

    def _object(self) -> dict[str, Any]:
        self._open()
        members: dict[str, Any] = {}
        begun = False
        self._blanks()
        while self._peek() != b"}":
            if begun:
                if self._peek() != b",":
                    raise self._fail()
                self._comma(b"}")
            begun = True
            start = self.at
            if self._peek() != b'"':
                raise self._fail()
            name = self._string()
            if name in members and (self.found.named_twice is None or start < self.found.named_twice):
                self.found.named_twice = start
            self._blanks()
            if self._peek() != b":":
                raise self._fail()
            self.at += 1
            self._blanks()
            members[name] = self._value()
            self._blanks()
        self._close()
        return members

    def _string(self) -> str:
        start = self.at
        parts: list[str] = []
        self.at += 1
        while (byte := self._peek()) != b'"':
            if not byte or byte < b" ":
                raise self._fail(start)
            if byte == b"\\":
                parts.append(self._escape(start))
                continue
            plain = _PLAIN.match(self.body, self.at)
            assert plain
            parts.append(plain[0].decode())
            self.at = plain.end()
        self.at += 1
        return "".join(parts)

    def _escape(self, start: int) -> str:
        self.at += 1
        letter = self._peek()
        if letter == b"u":
            self.at += 1
            unit = self._unit(start)
            if 0xD800 <= unit < 0xDC00:
                if self.body[self.at : self.at + 2] != b"\\u":
                    raise NotJsonError(start, min(self.at + 2, len(self.body)))
                self.at += 2
                low = self._unit(start)
                if not 0xDC00 <= low < 0xE000:
                    raise self._fail(start)
                return chr(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00))
            if 0xDC00 <= unit < 0xE000:
                raise self._fail(start)
            return chr(unit)
        if not letter or letter[0] not in _ESCAPES:
            raise self._fail(start)
        self.at += 1
        return _ESCAPES[letter[0]]

    def _unit(self, start: int) -> int:
        digits = self.body[self.at : self.at + 4]
        if len(digits) != 4 or not all(digit in b"0123456789abcdefABCDEF" for digit in digits):
            raise NotJsonError(start, min(self.at + 4, len(self.body)))
        self.at += 4
        return int(digits, 16)

    def _digits(self, start: int) -> None:
        if not (self._peek() and self._peek() in b"0123456789"):
            raise self._fail(start)
        while self._peek() and self._peek() in b"0123456789":
            self.at += 1

    def _number(self) -> int | float:
        start = self.at
        whole = True
        if self._peek() == b"-":
            self.at += 1
        if self._peek() == b"0":
            self.at += 1
            if self._peek() and self._peek() in b"0123456789":
                raise self._fail(start)
        else:
            self._digits(start)
        if self._peek() == b".":
            whole = False
            self.at += 1
            self._digits(start)
        if self._peek() and self._peek() in b"eE":
            whole = False
            self.at += 1
            if self._peek() and self._peek() in b"+-":
                self.at += 1
            self._digits(start)
        text = self.body[start : self.at].decode()
        if float(text) in {float("inf"), float("-inf")}:
            raise self._fail(start)
        return int(text) if whole else float(text)
