"""Reads and writes JSON that orjson cannot: integers beyond 64 bits, and values nested deeper than it allows."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import orjson

MAX_DEPTH: Final = 1_000
"""Deepest nesting of a body. (contract 4.9)"""


def read_exact(text: str) -> Any:
    """Returns the value of valid JSON, every integer as it stands there."""
    with _room_for_nesting():
        return json.loads(text)


def write_json(value: Any) -> str:
    """Returns compact JSON text of a parsed body's value; every integer keeps all its digits."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        with _room_for_nesting():
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@contextmanager
def _room_for_nesting() -> Iterator[None]:
    # The standard library's C code counts nesting against the limit of Python's own call stack.
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + 2 * MAX_DEPTH)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
