"""JSON as the service keeps it: compact text, integers of any size exact, nothing that is not JSON.

The standard library's, not orjson: that rounds integers beyond 64 bits and refuses nesting that the contract allows.
orjson is for what holds no value of a caller's or a step's: labels, warnings, needs and the redaction manifest.
"""

import json
from typing import Any, Final

LARGEST_SHARED: Final = 65_536
"""Most characters of a step's JSON that are parsed in a process which other runs share, for objects take much more."""


class JsonText(str):
    """JSON text in place of its value, which is too large to be parsed in a process that other runs share."""

    __slots__ = ()


def shared(text: str) -> Any:
    """The value of JSON text; the text itself, as `JsonText`, where it is too large."""
    return JsonText(text) if len(text) > LARGEST_SHARED else parse(text)


def text_of(value: Any) -> str:
    """Compact JSON text of a value that may stand as its text already."""
    return str(value) if isinstance(value, JsonText) else write(value)


def parse(text: str | bytes) -> Any:
    """The value of JSON text; raises ValueError or RecursionError."""
    return json.loads(text)


def write(value: object) -> str:
    """Compact JSON text; raises ValueError for NaN and infinities."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical(value: object) -> str:
    """The one spelling of a JSON value, keys sorted: equal text for equal values."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False, sort_keys=True)
