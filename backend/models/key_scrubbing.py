"""Removes a key from text that quotes it, completely or in part, in the encodings that servers and libraries use."""

import base64
import string
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import quote

SHORTEST_PART: Final = 8
"""Characters of the shortest part of a key that is removed; shorter ones may be words."""

SCRUBBED: Final = "[secret]"

_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def without_key(text: str, key: str) -> str:
    """Returns the text with every part of the key from SHORTEST_PART on replaced, in any case and with any blanks."""
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
    """Yields the encodings of the key: plain, in an address, and in base64 after any number of other bytes."""
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
    parts: list[str] = []
    end = 0
    for first, last in found:
        if first > end or not parts:
            parts += (text[end:first], SCRUBBED)
        end = max(end, last)
    return "".join((*parts, text[end:]))
