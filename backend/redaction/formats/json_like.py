"""Sweeps text that is nearly JSON: with NaN, comments, single words or other text around its values.

Its strings and numbers are swept as those of JSON, with their keys, and what comes out is swept as plain text. So
nothing is left out, whatever the text is.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from backend.redaction.formats.bounds import BATCH, LONGEST_VALUE
from backend.redaction.formats.json_labels import Keys
from backend.redaction.formats.json_text import Values
from backend.redaction.search.numbers import plain_number

if TYPE_CHECKING:
    from backend.redaction.sweep import Sweep

_INSIDE: Final = r'[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+'
_NUMBER: Final = r"-?[0-9]{5,}(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?(?=[ \t]{0,9}(?:[\r\n,\]}]|\Z))"
# Strings, also ones without an end, lest each quote be read to the end; numbers that stand as values; braces.
_TOKEN: Final = re.compile(rf"""("{_INSIDE}("?))([ \t\r\n]*+:)?|(?:(?<=[:\[,])|(?<=[:\[,] )){_NUMBER}|[{{}}]""")


def sweep_json_like(blocks: Iterable[str], sweep: "Sweep") -> Iterator[str]:
    """Yields the swept text block by block; it takes every text."""
    # The values are replaced in every mode, so that none is counted again as text.
    values = sweep.part(redacts=True)
    yield from sweep.stream(_with_values_swept(blocks, values))
    sweep.counts.add(values.counts)


def _with_values_swept(blocks: Iterable[str], sweep: "Sweep") -> Iterator[str]:
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
    place = 0
    for found in _TOKEN.finditer(text):
        string, close, colon = found.groups()
        token = found.group()
        pieces += text[place : found.start()], token
        place = found.end()
        if token in {"{", "}"}:
            keys.punctuation(token)
        elif string is None:
            values.value(pieces, len(pieces) - 1, plain_number(token), keys.label)
        elif not close:
            # It has no end on its line, and is text.
            continue
        elif colon is not None:
            keys.key(_text(string))
        else:
            values.string(pieces, len(pieces) - 1, _text(string), keys.label)
    values.replace(sweep.cells(values.cells, values.labels))
    return "".join(pieces) + text[place:]


def _text(string: str) -> str:
    try:
        return str(json.loads(string))
    except ValueError:
        return string[1:-1]
