"""JSON as the service stores it: compact text, with exact integers of any size, and strictly JSON.

It uses the standard library, not orjson, which rounds integers beyond 64 bits and refuses nesting that the contract
allows. orjson serves what holds no value of a caller or a step: labels, warnings, needs and the redaction manifest.
"""

import json
from typing import Any, Final

LARGEST_SHARED: Final = 65_536
"""The longest JSON text of a step that is parsed in a process which other runs share: its objects take much more."""


class JsonText(str):
    """JSON text in place of its value, which is too large to be parsed in a process that other runs share."""

    __slots__ = ()


def shared(text: str) -> Any:
    """Returns the value of JSON text; the text itself, as `JsonText`, where it is too large."""
    return JsonText(text) if len(text) > LARGEST_SHARED else parse(text)


def text_of(value: Any) -> str:
    """Returns the compact JSON text of a value, which may be `JsonText` already."""
    return str(value) if isinstance(value, JsonText) else write(value)


def parse(text: str | bytes) -> Any:
    """Returns the value of JSON text; raises ValueError or RecursionError."""
    return json.loads(text)


def write(value: object) -> str:
    """Returns compact JSON text; raises ValueError for NaN and infinities."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical(value: object) -> str:
    """Returns the canonical JSON text of a value, keys sorted: equal text for equal values."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False, sort_keys=True)
