"""Sweeps the values of a stream of JSON text: keys, layout and the spelling of numbers stay unchanged."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from backend.redaction.search.numbers import plain_number

LONGEST_VALUE: Final = 16 * 1024 * 1024
_BATCH: Final = 512 * 1024
_INSIDE: Final = r'[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+'
_TOKEN: Final = re.compile(rf"""[ \t\r\n{{}}\[\],:]++|"{_INSIDE}"|[-+.0-9A-Za-z]++""", re.ASCII)
# Continuations of a text that ends inside a string, in a literal, or in the blanks after a value.
_IN_STRING: Final = re.compile(_INSIDE, re.ASCII)
_IN_LITERAL: Final = re.compile(r"[-+.0-9A-Za-z]*+", re.ASCII)
_IN_BLANKS: Final = re.compile(r"[ \t\r\n]*+", re.ASCII)
_LITERAL: Final = re.compile(r"true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")

# `json.dumps` would create an encoder at each call.
_JSON: Final = json.JSONEncoder(ensure_ascii=False).encode
_ASCII_JSON: Final = json.JSONEncoder().encode

SweepCells = Callable[[list[str], list[str]], dict[int, str]]
"""Takes values and their labels; returns the new text of those that change, by index."""


class NotJsonError(ValueError):
    """The text is not JSON."""


class ValueTooLongError(ValueError):
    """A value is longer than LONGEST_VALUE."""


def sweep_json(blocks: Iterable[str], sweep: SweepCells) -> Iterator[str]:
    """Yields the swept text of one or several JSON values, block by block.

    A number that `sweep` changes becomes a string: `4111111111111111` becomes `"[CREDIT_CARD]"`.

    Raises:
        NotJsonError: as soon as the text cannot be JSON; nesting is not checked.
        ValueTooLongError: before more than LONGEST_VALUE of a value is in memory.
    """
    label = ""
    reader = _Reader()
    for block in blocks:
        if tokens := reader.tokens(block):
            swept, label = _swept(tokens, label, sweep)
            yield swept
    yield _swept(reader.last_tokens(), label, sweep)[0]


class _Reader:
    """Tokenizer of a stream of JSON text that reads each character a few times at most.

    It holds back the last value, with the blanks after it, until it is known to be complete and no key.
    """

    def __init__(self) -> None:
        self._held: list[str] = []
        self._size = 0
        # The kind of token that the held text ends in, while it may continue in the next block.
        self._inside: re.Pattern[str] | None = None

    def tokens(self, block: str) -> list[str]:
        """Returns the tokens that this block completes."""
        if self._inside is None:
            self._hold(block)
            return self._cut() if self._size >= _BATCH else []
        if self._inside is _IN_STRING and self._held[-1] == "\\":
            block = self._held.pop() + block
            self._size -= 1
        if not self._holds_continuation(block):
            self._hold(block)
            return self._cut()
        if self._size > LONGEST_VALUE:
            raise ValueTooLongError
        return []

    def last_tokens(self) -> list[str]:
        """Returns the tokens of the rest of the text."""
        tokens, rest = _tokens("".join(self._held))
        if rest:
            raise NotJsonError
        return tokens

    def _hold(self, text: str) -> None:
        self._held.append(text)
        self._size += len(text)

    def _holds_continuation(self, text: str, start: int = 0) -> bool:
        """Holds a text if all of it continues the last token; returns whether it does."""
        assert self._inside is not None
        found = self._inside.match(text, start)
        assert found is not None, "it matches nothing too"
        end = found.end()
        if end == len(text):
            self._hold(text)
        elif self._inside is _IN_STRING and text[end] == "\\" and end == len(text) - 1:
            # The escaped character begins the next block.
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
            if rest[0] != '"' or not self._holds_continuation(rest, 1):
                raise NotJsonError
            return tokens
        if not tokens or not (text := _undecided(tokens)):
            return tokens
        self._inside = _IN_LITERAL if _IN_LITERAL.fullmatch(text) else _IN_BLANKS
        self._hold(text)
        return tokens


def _tokens(text: str) -> tuple[list[str], str]:
    """Returns the tokens of a text, and the rest in which none can be read."""
    tokens = []
    place = 0
    while (found := _TOKEN.match(text, place)) is not None:
        tokens.append(found.group())
        place = found.end()
    return tokens, text[place:]


def _undecided(tokens: list[str]) -> str:
    """Removes the last value, which may be a key or incomplete, with the blanks after it; returns their text."""
    blanks = tokens.pop() if tokens[-1].isspace() else ""
    if tokens and tokens[-1][0] not in " \t\r\n{}[],:":
        return tokens.pop() + blanks
    if blanks:
        tokens.append(blanks)
    return ""


def _swept(tokens: list[str], label: str, sweep: SweepCells) -> tuple[str, str]:
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
