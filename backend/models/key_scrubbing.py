"""Takes a key out of text that quotes it back: whole or in part, spelt in the ways that servers and libraries have."""

import base64
import string
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import quote

SHORTEST_PART: Final = 8
"""Characters that give a part of a key away; fewer may be words."""

SCRUBBED: Final = "[secret]"

_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def without_key(text: str, key: str) -> str:
    """The text with every long part of the key hidden, whatever its case and the blanks between."""
    parts = {part for form in _forms(key) for part in _parts(form.translate(_LOWER))}
    places = [place for place, character in enumerate(text) if not character.isspace()]
    plain = "".join(text[place] for place in places).translate(_LOWER)
    found = (
        (places[start], places[start + size - 1] + 1)
        for size in {len(part) for part in parts}
        for start in range(len(plain) - size + 1)
        if plain[start : start + size] in parts
    )
    return _hidden(text, sorted(found))


def _forms(key: str) -> Iterator[str]:
    """How the key may be spelt: as it is, in an address, and in base64 after any number of other bytes."""
    yield key
    yield quote(key, safe="")
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + key.encode()).decode().rstrip("=")
        if len(encoded) >= SHORTEST_PART:
            yield encoded
            yield encoded.replace("+", "-").replace("/", "_")


def _parts(form: str) -> Iterator[str]:
    for start in range(max(len(form) - SHORTEST_PART, 0) + 1):
        yield form[start : start + SHORTEST_PART]


def _hidden(text: str, found: Iterable[tuple[int, int]]) -> str:
    told: list[str] = []
    end = 0
    for first, last in found:
        if first > end or not told:
            told += (text[end:first], SCRUBBED)
        end = max(end, last)
    return "".join((*told, text[end:]))
