"""Parses request bodies as strict JSON, keeping every integer as written (contract 4.8, 4.9)."""

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn

import orjson

from contract.json_codec.json_scan import named_twice_at, too_deep_at
from contract.refusals import Refusal

MAX_DEPTH: Final = 1_000
"""Deepest nesting of a body. (contract 4.9)"""

# orjson reads an integer beyond 64 bits as a double; a number shorter than this fits.
_LONG_NUMBER: Final = re.compile(rb"[0-9]{19}")
# Such an escape may stand for a colon or a letter of a name.
_ESCAPED: Final = b"\\u00"
_TOO_DEEP: Final = f"nested deeper than {MAX_DEPTH:,}"


def read_exact(text: str) -> Any:
    """Returns the value of valid JSON; integers are exact at any size."""
    with _recursion_limit_raised():
        return json.loads(text)


def write_json(value: Any) -> str:
    """Returns compact JSON text of a parsed body's value; every integer keeps all its digits."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        with _recursion_limit_raised():
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@contextmanager
def _recursion_limit_raised() -> Iterator[None]:
    # The standard library's C code counts nesting against the limit of Python's own call stack.
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + 2 * MAX_DEPTH)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def parse_json_body(body: bytes) -> Any:
    """Returns the value of a request body; one of no bytes is `{}`.

    Numbers without fraction and exponent are ints of any size, all others floats.

    Raises:
        Refusal: `invalid_request`, one problem named `body` whose reason gives the byte offset. Refused beside what
            JSON itself forbids: a byte order mark, lone surrogates, numbers beyond a double, nesting over 1,000 and a
            member named twice.
    """
    if not body:
        return {}
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        value = _read_padded(body)
    try:
        written = orjson.dumps(value)
    except TypeError:
        # Nested deeper than orjson writes, which is less than what it reads and we allow.
        single = False
    else:
        # orjson keeps one member of each name: fewer colons than in the body mean that a name occurs twice.
        single = _ESCAPED not in body and body.count(b":") == written.count(b":")
    if not single:
        _refuse_nesting_and_names(body)
    return read_exact(body.decode()) if _LONG_NUMBER.search(body) else value


def _read_padded(body: bytes) -> Any:
    # orjson reserves memory by the length, too little for a run of brackets: blanks make the text longer.
    try:
        return orjson.loads(body + b" " * len(body))
    except orjson.JSONDecodeError as error:
        _refuse_syntax(body, error)


def _refuse_syntax(body: bytes, error: orjson.JSONDecodeError) -> NoReturn:
    try:
        body.decode()
    except UnicodeDecodeError as not_utf8:
        _refuse(not_utf8.start, "not valid UTF-8")
    offset = min(len(error.doc[: error.pos].encode()), len(body))
    # orjson reads a little deeper than we allow; the first of two errors is reported.
    deep = too_deep_at(body[:offset], MAX_DEPTH)
    if deep is not None:
        _refuse(deep, _TOO_DEEP)
    _refuse(offset, error.msg)


def _refuse_nesting_and_names(body: bytes) -> None:
    offsets = {_TOO_DEEP: too_deep_at(body, MAX_DEPTH), "a member is named twice": named_twice_at(body)}
    found = [(offset, why) for why, offset in offsets.items() if offset is not None]
    if found:
        _refuse(*min(found))


def _refuse(offset: int, why: str) -> NoReturn:
    raise Refusal(
        "invalid_request", details=[{"name": "body", "reason": f"malformed JSON at byte offset {offset}: {why}"}]
    )
