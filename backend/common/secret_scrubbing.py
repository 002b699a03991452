"""Removes secrets from text that quotes them, whole or in part, in the encodings that servers and libraries use.

Case and blanks do not count. The time rises with the length of the text alone: the search samples it for short pieces
of the secrets, and compares closely only around a piece.
"""

import base64
import json
import re
import string
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import compress
from typing import Any, Final
from urllib.parse import quote, quote_plus

from backend.common import json_text
from backend.common.json_text import JsonText

SHORTEST_PART: Final = 8
"""Characters of the shortest part of a secret that is removed; shorter ones may be words."""
SHORTEST_PART_OF_DATA: Final = 16
"""`SHORTEST_PART` in data, where 8 characters of an address or of JSON may be common to many values."""

SCRUBBED: Final = "[secret]"

Span = tuple[int, int]

MARK: Final = SCRUBBED.encode()
_LOWER: Final = bytes.maketrans(string.ascii_uppercase.encode(), string.ascii_lowercase.encode())
_IN_ADDRESSES: Final = bytes.maketrans(b"+/", b"-_")
_BLANKS: Final = string.whitespace.encode()
_LINE_ENDS: Final = frozenset((b"\r", b"\n"))
_IS_NO_BLANK: Final = [value not in _BLANKS for value in range(256)]
_ESCAPED_BLANK: Final = re.compile(rb"\\(?:[nrtf]|u000[bB])")
# Possessive, because a value of a step may be long and arbitrary.
_LITERAL: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"|-?[0-9][0-9.eE+-]*')

# More than any encoding of the largest secret.
_MOST_HELD_BYTES: Final = 64 * 1024


class Scrubber:
    """Finds the given secrets in text, and replaces them; a scrubber without secrets is false.

    A part of a secret counts from 8 characters on; with `data`, from half of the secret's length on, between 8 and 16.
    """

    def __init__(self, secrets: Iterable[str], *, data: bool = False) -> None:
        by_width: defaultdict[int, set[bytes]] = defaultdict(set)
        for secret in secrets:
            longest = SHORTEST_PART_OF_DATA if data else SHORTEST_PART
            width = max(SHORTEST_PART, min(len(secret) // 2, longest))
            for form in _forms(secret):
                by_width[min(width, len(form))].add(form)
        self._searches = [_Search(frozenset(forms), width) for width, forms in by_width.items()]

    def __bool__(self) -> bool:
        return bool(self._searches)

    def text(self, text: str) -> str:
        """Returns the text with every part of a secret replaced."""
        given = text.encode(errors="surrogatepass")
        spans = self.spans(given)
        return _hidden(given, spans).decode(errors="surrogatepass") if spans else text

    def json(self, text: str) -> str:
        """Returns JSON text with every part of a secret in its strings and numbers replaced."""
        given = text.encode(errors="surrogatepass")
        if not self.spans(given) and not (b"\\" in given and self.spans(_ESCAPED_BLANK.sub(b"", given))):
            return text
        return _LITERAL.sub(lambda found: self._literal(found[0]), text)

    def value(self, value: Any) -> Any:
        """Returns a JSON value with every part of a secret in it replaced; `JsonText` stays `JsonText`."""
        if not self._searches:
            return value
        text = json_text.text_of(value)
        scrubbed = self.json(text)
        if scrubbed == text:
            return value
        return JsonText(scrubbed) if isinstance(value, JsonText) else json_text.parse(scrubbed)

    def spans(self, text: bytes) -> list[Span]:
        """Returns the spans of parts of secrets, in order and disjoint."""
        plain = text.translate(_LOWER, _BLANKS)
        found = merged(sorted(span for search in self._searches for span in search.spans(plain)), overlap=1)
        if not found:
            return []
        places = list(compress(range(len(text)), map(_IS_NO_BLANK.__getitem__, text)))
        return merged(
            (_begin_of_character(text, places[first]), _end_of_character(text, places[last - 1] + 1))
            for first, last in found
        )

    def complete(self, text: bytes) -> int:
        """Returns the length of the text before the begin of a secret that may continue after the text's end.

        At the end of a line, a beginning that is shorter than the shortest part does not count.
        """
        plain = text.translate(_LOWER, _BLANKS)
        open_bytes = max((search.open_bytes(plain) for search in self._searches), default=0)
        ends_line = text.rstrip(b" \t")[-1:] in _LINE_ENDS
        if not open_bytes or (ends_line and all(open_bytes < search.width for search in self._searches)):
            return len(text)
        # Usually few blanks, but any number is possible.
        if _size_without_blanks(text[-open_bytes:]) == open_bytes:
            return len(text) - open_bytes
        sizes = range(len(text) + 1)
        return len(text) - bisect_left(
            sizes, open_bytes, key=lambda size: _size_without_blanks(text[len(text) - size :])
        )

    def _literal(self, literal: str) -> str:
        if not literal.startswith('"'):
            return literal if self.text(literal) == literal else f'"{SCRUBBED}"'
        given = json.loads(literal)
        scrubbed = self.text(given)
        return literal if scrubbed == given else json.dumps(scrubbed, ensure_ascii=False)


class _Search:
    """Search for the parts, of one width, of some forms of secrets.

    Every part holds a whole piece that begins at a multiple of `step`, so only such pieces are looked at.
    """

    def __init__(self, forms: frozenset[bytes], width: int) -> None:
        self.width = width
        self._forms = forms
        self._longest = max(map(len, forms))
        self._piece = (width + 1) // 2
        self._step = width - self._piece + 1
        self._pieces = _cut(forms, self._piece)
        self._parts = _cut(forms, width)

    def spans(self, plain: bytes) -> Iterator[Span]:
        """Yields the places of parts, in order and without overlaps."""
        piece, step, width, pieces, parts = self._piece, self._step, self.width, self._pieces, self._parts
        begin = end = -1
        for place in [at for at in range(0, len(plain) - piece + 1, step) if plain[at : at + piece] in pieces]:
            for first in range(max(place - step + 1, 0), place + 1):
                if plain[first : first + width] not in parts:
                    continue
                if first >= end:
                    if end > 0:
                        yield begin, end
                    begin = first
                end = first + width
        if end > 0:
            yield begin, end

    def open_bytes(self, plain: bytes) -> int:
        """Returns the size of the longest end of the text that is anywhere in a form."""
        longest = min(len(plain), self._longest)
        # If one end of the text is in a form, so is every shorter end.
        return bisect_left(range(1, longest + 1), True, key=lambda size: not self._occurs_in_form(plain[-size:]))

    def _occurs_in_form(self, end: bytes) -> bool:
        return any(end in form for form in self._forms)


def merged(spans: Iterable[Span], overlap: int = 0) -> list[Span]:
    """Returns spans in order; those that share at least `overlap` bytes, or touch at 0, become one."""
    found: list[Span] = []
    for first, last in spans:
        if found and first <= found[-1][1] - overlap:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    return found


def _hidden(text: bytes, spans: Iterable[Span]) -> bytes:
    parts: list[bytes] = []
    end = 0
    for first, last in spans:
        parts += text[end:first], MARK
        end = last
    return b"".join((*parts, text[end:]))


def without_key(text: str, key: str) -> str:
    """Returns the text with every part of the key from SHORTEST_PART on replaced, in any case and with any blanks."""
    return Scrubber([key]).text(text)


def _forms(secret: str) -> Iterator[bytes]:
    """Yields the encodings of a secret: plain, in JSON, in an address, in base64 after any number of other bytes."""
    value = secret.encode(errors="surrogatepass")
    encoded = [base64.b64encode(b"\0" * before + value).rstrip(b"=") for before in range(3)]
    for form in (
        value,
        json.dumps(secret, ensure_ascii=False)[1:-1].encode(errors="surrogatepass"),
        json.dumps(secret)[1:-1].encode(),
        quote(value, safe="").encode(),
        quote(value).encode(),
        quote_plus(value).encode(),
        *(form for form in encoded if len(form) >= SHORTEST_PART),
        *(form.translate(_IN_ADDRESSES) for form in encoded if len(form) >= SHORTEST_PART),
    ):
        if plain := form.translate(_LOWER, _BLANKS):
            yield plain


def _size_without_blanks(text: bytes) -> int:
    return len(text.translate(None, _BLANKS))


def _cut(forms: Iterable[bytes], size: int) -> frozenset[bytes]:
    """Returns all parts of the forms of `size` bytes."""
    return frozenset(form[first : first + size] for form in forms for first in range(len(form) - size + 1))


def _begin_of_character(text: bytes, place: int) -> int:
    while place and _is_inside(text[place]):
        place -= 1
    return place


def _end_of_character(text: bytes, place: int) -> int:
    while place < len(text) and _is_inside(text[place]):
        place += 1
    return place


def _is_inside(value: int) -> bool:
    """Returns whether a byte continues a character of UTF-8."""
    return value & 0xC0 == 0x80


class ScrubbedStream:
    """Scrubs one text as it arrives; holds back its end while that may be the begin of a secret."""

    def __init__(self, scrubber: Scrubber) -> None:
        self._scrubber = scrubber
        self._held = b""
        # Bytes held back that are part of a secret already, and whether a mark stands right before them.
        self._known = 0
        self._marked = False

    def add(self, part: bytes) -> bytes:
        """Returns the text that can be passed on, with a mark in place of each secret."""
        text = self._held + part
        end = self._scrubber.complete(text)
        # Any number of blanks may be held back, because blanks do not count.
        return self._pass_on(text, end if len(text) - end <= _MOST_HELD_BYTES else len(text))

    def finish(self) -> bytes:
        """Returns the text held back, scrubbed."""
        return self._pass_on(self._held, len(self._held))

    def _pass_on(self, text: bytes, end: int) -> bytes:
        if not end:
            self._held = text
            return b""
        known = [(0, self._known)] if self._known else []
        spans = [span for span in merged([*known, *self._scrubber.spans(text)]) if span[0] < end]
        parts: list[bytes] = []
        place = 0
        for first, last in spans:
            parts.append(text[place:first])
            if first or not self._marked:
                parts.append(MARK)
            place = min(last, end)
        parts.append(text[place:end])
        self._known = max(spans[-1][1] - end, 0) if spans else 0
        self._marked = bool(spans) and place == end
        self._held = text[end:]
        return b"".join(parts)
