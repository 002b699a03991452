"""Parses the JSON of steps strictly: it is stored and sent on, so every parser must accept it."""

import json
import re
from typing import Any

from backend import json_text

# A NUL escape that is not itself escaped. PostgreSQL stores no NUL.
_NUL = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")


class NotJsonError(ValueError):
    """The bytes are not JSON that can be stored; the text says why, as in `is not JSON: …`."""


def parse(payload: bytes) -> Any:
    """Returns the value of strict JSON: no NaN, lone surrogate or NUL, numbers within a double, bounded nesting."""
    if _NUL.search(payload):
        raise NotJsonError("holds the character U+0000, which cannot be stored")
    try:
        value = json.loads(payload.decode(), parse_constant=_refuse)
        # Lone surrogates and numbers beyond a double show only when they are written again.
        json_text.write(value).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise NotJsonError(f"is not JSON: {error}") from error
    return value


def parse_replacing_nul(payload: bytes) -> Any:
    """Returns the value as `parse`, with U+0000 replaced by U+FFFD."""
    return parse(_NUL.sub(rb"\1\\ufffd", payload))


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no number of JSON")
