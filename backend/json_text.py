"""JSON as the service keeps it: compact text, integers of any size exact, nothing that is not JSON.

The standard library's, not orjson: that rounds integers beyond 64 bits and refuses nesting that the contract allows.
orjson is for what holds no value of a caller's or a step's: labels, warnings, needs and the redaction manifest.
"""

import json
from typing import Any


def parse(text: str | bytes) -> Any:
    """The value of JSON text; raises ValueError or RecursionError."""
    return json.loads(text)


def write(value: object) -> str:
    """Compact JSON text; raises ValueError for NaN and infinities."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical(value: object) -> str:
    """The one spelling of a JSON value, keys sorted: equal text for equal values."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False, sort_keys=True)
