"""Sweeps the values of JSON text as it streams past: keys, numbers' spelling and layout stay as they are."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from backend.runtime.redaction.numbers import plain_number

LONGEST_VALUE: Final = 16 * 1024 * 1024
_BATCH: Final = 512 * 1024
_TOKEN: Final = re.compile(
    r"""[ \t\r\n{}\[\],:]+|"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*"|[-+.0-9A-Za-z]+""", re.ASCII
)
_CONTROL: Final = re.compile(r"[\x00-\x1f]")
_LITERAL: Final = re.compile(r"true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")

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
    rest = ""
    for block in blocks:
        rest += block
        if len(rest) < _BATCH:
            continue
        tokens, rest = _tokens(rest, final=False)
        if len(rest) > LONGEST_VALUE:
            raise ValueTooLongError
        swept, label = _swept(tokens, label, sweep)
        yield swept
    tokens, _ = _tokens(rest, final=True)
    yield _swept(tokens, label, sweep)[0]


def _tokens(text: str, *, final: bool) -> tuple[list[str], str]:
    """The tokens of a text, and, unless it is final, what may yet grow: the last value and what follows it."""
    tokens = []
    place = 0
    while (found := _TOKEN.match(text, place)) is not None:
        tokens.append(found.group())
        place = found.end()
    if place < len(text) and (final or text[place] != '"' or _CONTROL.search(text, place)):
        raise NotJsonError
    if final:
        return tokens, ""
    held = [text[place:]]
    while tokens:
        held.append(tokens.pop())
        if held[-1][0] not in " \t\r\n{}[],:":
            break
    return tokens, "".join(reversed(held))


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
        tokens[places[index]] = json.dumps(new, ensure_ascii="\\u" in tokens[places[index]])
    return "".join(tokens), label


def _text(token: str) -> str:
    if "\\" not in token:
        return token[1:-1]
    try:
        return str(json.loads(token))
    except ValueError as error:
        raise NotJsonError from error
