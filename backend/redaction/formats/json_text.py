"""Sweeps the values of JSON text as it streams past: keys, numbers' spelling and layout stay as they are."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from backend.redaction.search.numbers import plain_number

LONGEST_VALUE: Final = 16 * 1024 * 1024
_BATCH: Final = 512 * 1024
_INSIDE: Final = r'[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+'
_TOKEN: Final = re.compile(rf"""[ \t\r\n{{}}\[\],:]++|"{_INSIDE}"|[-+.0-9A-Za-z]++""", re.ASCII)
# How a text goes on that ends inside of a string, in a literal, or in the blanks behind a value.
_IN_STRING: Final = re.compile(_INSIDE, re.ASCII)
_IN_LITERAL: Final = re.compile(r"[-+.0-9A-Za-z]*+", re.ASCII)
_IN_BLANKS: Final = re.compile(r"[ \t\r\n]*+", re.ASCII)
_LITERAL: Final = re.compile(r"true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")

# `json.dumps` makes one of these each time.
_JSON: Final = json.JSONEncoder(ensure_ascii=False).encode
_ASCII_JSON: Final = json.JSONEncoder().encode

# New text for some of (cells, labels), by index.
Sweep = Callable[[list[str], list[str]], dict[int, str]]


class NotJsonError(ValueError):
    """The text is not JSON."""


class ValueTooLongError(ValueError):
    """One value is longer than LONGEST_VALUE."""


def sweep_json(blocks: Iterable[str], sweep: Sweep) -> Iterator[str]:
    """The swept text of one or many JSON values, block by block.

    A number that `sweep` changes becomes a string: `4111111111111111` becomes `"[CREDIT_CARD]"`.

    Raises:
        NotJsonError: as soon as the text cannot be JSON; nesting is not checked.
        ValueTooLongError: before a longer value would be held in memory.
    """
    label = ""
    reader = _Reader()
    for block in blocks:
        if tokens := reader.tokens(block):
            swept, label = _swept(tokens, label, sweep)
            yield swept
    yield _swept(reader.last_tokens(), label, sweep)[0]


class _Reader:
    """Cuts JSON text into tokens as it streams past; each character is read a few times at most.

    What may yet grow is held until it cannot: the last value, for it may be a key, with the blanks behind it.
    """

    def __init__(self) -> None:
        self._held: list[str] = []
        self._size = 0
        # What the held text ends in, where that may go on over many blocks.
        self._inside: re.Pattern[str] | None = None

    def tokens(self, block: str) -> list[str]:
        """The tokens that are complete with this block."""
        if self._inside is None:
            self._hold(block)
            return self._cut() if self._size >= _BATCH else []
        if self._inside is _IN_STRING and self._held[-1] == "\\":
            block = self._held.pop() + block
            self._size -= 1
        if not self._goes_on(block):
            self._hold(block)
            return self._cut()
        if self._size > LONGEST_VALUE:
            raise ValueTooLongError
        return []

    def last_tokens(self) -> list[str]:
        """The tokens of the text that is left."""
        tokens, rest = _tokens("".join(self._held))
        if rest:
            raise NotJsonError
        return tokens

    def _hold(self, text: str) -> None:
        self._held.append(text)
        self._size += len(text)

    def _goes_on(self, text: str, start: int = 0) -> bool:
        """Holds a text that does not end what the held one ends in."""
        assert self._inside is not None
        found = self._inside.match(text, start)
        assert found is not None, "it matches nothing too"
        end = found.end()
        if end == len(text):
            self._hold(text)
        elif self._inside is _IN_STRING and text[end] == "\\" and end == len(text) - 1:
            # The next block begins with what it escapes.
            self._hold(text[:end])
            self._hold("\\")
        else:
            return False
        return True

    def _cut(self) -> list[str]:
        tokens, rest = _tokens("".join(self._held))
        self._held, self._size, self._inside = [], 0, None
        if rest:
            self._inside = _IN_STRING
            if rest[0] != '"' or not self._goes_on(rest, 1):
                raise NotJsonError
            return tokens
        if not tokens or not (text := _undecided(tokens)):
            return tokens
        self._inside = _IN_LITERAL if _IN_LITERAL.fullmatch(text) else _IN_BLANKS
        self._hold(text)
        return tokens


def _tokens(text: str) -> tuple[list[str], str]:
    """The tokens of a text, and what is left of it where none can be read."""
    tokens = []
    place = 0
    while (found := _TOKEN.match(text, place)) is not None:
        tokens.append(found.group())
        place = found.end()
    return tokens, text[place:]


def _undecided(tokens: list[str]) -> str:
    """Takes from the end of some tokens the value that may be a key, or yet grow, and the blanks behind it."""
    blanks = tokens.pop() if tokens[-1].isspace() else ""
    if tokens and tokens[-1][0] not in " \t\r\n{}[],:":
        return tokens.pop() + blanks
    if blanks:
        tokens.append(blanks)
    return ""


def _swept(tokens: list[str], label: str, sweep: Sweep) -> tuple[str, str]:
    cells: list[str] = []
    labels: list[str] = []
    places: list[int] = []
    for place, token in enumerate(tokens):
        if token[0] == '"':
            if place + 1 < len(tokens) and tokens[place + 1].lstrip(" \t\r\n")[:1] == ":":
                label = _text(token)
                continue
            cells.append(_text(token))
        elif token[0] in " \t\r\n{}[],:":
            if "}" in token:
                label = ""
            continue
        elif _LITERAL.fullmatch(token):
            if len(token) < 5:
                continue
            cells.append(plain_number(token) if "e" in token or "E" in token else token)
        else:
            raise NotJsonError
        labels.append(label)
        places.append(place)
    for index, new in sweep(cells, labels).items():
        place = places[index]
        tokens[place] = (_ASCII_JSON if "\\u" in tokens[place] else _JSON)(new)
    return "".join(tokens), label


def _text(token: str) -> str:
    if "\\" not in token:
        return token[1:-1]
    try:
        return str(json.loads(token))
    except ValueError as error:
        raise NotJsonError from error
