"""Sweeps text that resembles JSON: with NaN, comments, single words or other text around values.

Strings and numbers are swept as in JSON, with their keys as labels, and the result is swept as plain text, so that
nothing is left out. A model reads the text between values without keys, marks and single words.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from redaction.formats.json_keys import Keys
from redaction.formats.json_text import Values
from redaction.formats.outcome import BATCH, LONGEST_VALUE
from redaction.search.normalisation import without_exponent

if TYPE_CHECKING:
    from redaction.sweep import Sweep

_INSIDE: Final = r'[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+'
_NUMBER: Final = r"(?<![\w.+-])-?[0-9]{5,}(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?(?=[ \t]{0,9}(?:[\r\n,\]}]|\Z))"
# Strings, also unclosed ones, so that no quote is read to the end of the text; numbers as values; braces.
_TOKEN: Final = re.compile(rf"""("{_INSIDE}("?))([ \t\r\n]*+:)?|{_NUMBER}|[{{}}]""")
# Text before a number that is a value.
_BEFORE_NUMBER: Final = re.compile(r"[:\[,][ \t\r\n]{0,99}\Z")
_LONGEST_BEFORE: Final = 100
# Between values: a line without a key at its beginning and without marks around it.
_LINE: Final = re.compile(r"[^\s{}\[\],:][^\r\n]*(?<![\s\[\],:])")
_KEY: Final = re.compile(r"[\w$]+[ \t]*:[ \t]*")
_LITERALS: Final = re.compile(r"\b(?:NaN|Infinity|undefined|None|True|False|null|true|false)\b")
_LETTER: Final = re.compile(r"[^\W\d_]")
# Several words, a comment, or a string in other quotes.
_WORDS: Final = re.compile(r"[^\W\d_]{2,}\W+[^\W\d_]{2,}|//|/\*|#|'[^\W\d_]")


def sweep_json_like(blocks: Iterable[str], sweep: "Sweep") -> Iterator[str]:
    """Yields the swept text block by block; accepts any text."""
    # Values are replaced in every mode, so that none is counted again as text.
    values = sweep.part(redacts=True)
    yield from sweep.stream(_sweep_values(blocks, values), by_rules_only=True)
    sweep.counts.add(values.counts)


def _sweep_values(blocks: Iterable[str], sweep: "Sweep") -> Iterator[str]:
    keys = Keys()
    rest = ""
    for block in blocks:
        rest += block
        if len(rest) < BATCH:
            continue
        end = max(rest.rfind("\n"), rest.rfind(",")) + 1
        if end == 0:
            if len(rest) <= LONGEST_VALUE:
                continue
            end = len(rest)
        yield _swept(rest[:end], keys, sweep)
        rest = rest[end:]
    yield _swept(rest, keys, sweep)


def _swept(text: str, keys: Keys, sweep: "Sweep") -> str:
    pieces: list[str] = []
    values = Values()
    # The texts between values, by the index of the cell.
    between: dict[int, int] = {}
    place = 0

    def read(end: int) -> None:
        """Takes the text up to a value."""
        if sweep.by_rules_only:
            pieces.append(text[place:end])
            return
        at = place
        for low, high in _texts(text, place, end, in_object=keys.in_object):
            between[len(values.cells)] = len(pieces) + 1
            values.value(pieces, len(pieces) + 1, text[low:high], "")
            pieces.extend((text[at:low], text[low:high]))
            at = high
        pieces.append(text[at:end])

    for found in _TOKEN.finditer(text):
        string, close, colon = found.groups()
        token = found.group()
        if not (close or token in {"{", "}"} or (string is None and _is_value(text, found.start()))):
            # Text, like a string that is not closed on its line.
            continue
        read(found.start())
        pieces.append(token)
        place = found.end()
        if string is None and token in {"{", "}"}:
            keys.punctuation(token)
        elif string is None:
            values.value(pieces, len(pieces) - 1, without_exponent(token), keys.label)
        elif colon is not None:
            keys.key(_text(string))
        else:
            values.string(pieces, len(pieces) - 1, _text(string), keys.label)
    read(len(text))
    changed = sweep.cells(values.cells, values.labels)
    for index, piece in between.items():
        if index in changed:
            pieces[piece] = changed.pop(index)
    values.replace(changed)
    return "".join(pieces)


def _is_value(text: str, place: int) -> bool:
    return _BEFORE_NUMBER.search(text[max(place - _LONGEST_BEFORE, 0) : place]) is not None


def _texts(text: str, start: int, end: int, *, in_object: bool) -> Iterator[tuple[int, int]]:
    """Yields the spans of possible text between two values."""
    for line in _LINE.finditer(text, start, end):
        low, high = line.span()
        if in_object and (key := _KEY.match(text, low, high)) is not None:
            low = key.end()
        written = _LITERALS.sub("", text[low:high])
        if (_WORDS if in_object else _LETTER).search(written) is not None:
            yield low, high


def _text(string: str) -> str:
    try:
        return str(json.loads(string))
    except ValueError:
        return string[1:-1]
