"""JSON as the service stores it: compact text, with exact integers of any size, and strictly JSON.

It writes with the standard library, not orjson, which refuses integers beyond 64 bits and nesting that the contract
allows. orjson takes a fifth of the time: it writes JSON without values of callers or steps (labels, warnings, needs,
the redaction manifest), and reads text that both libraries read alike.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from json import encoder
from typing import Any, Final

import orjson

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]
"""Any JSON value, whose members are typed, too."""
JsonObject = dict[str, Any]
"""JSON object that its holder may change."""

JsonMapping = Mapping[str, Any]
"""JSON object that is only read."""


# A NUL escape that is not itself escaped. PostgreSQL stores no NUL.
NUL_ESCAPE: Final = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")


def _encoder(*, sort_keys: bool) -> Callable[[object, int], Iterable[str]]:
    """Returns a function that gives the compact text of a value, in parts.

    `json.JSONEncoder` makes such a function anew at each call: kept, a small value takes 0.75 µs in place of 1.4. A
    value that contains itself is refused as nested too deep.
    """
    options = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False, sort_keys=sort_keys)
    make: Callable[..., Callable[[object, int], Iterable[str]]] | None = getattr(encoder, "c_make_encoder", None)
    if make is None:
        return lambda value, _: options.iterencode(value)
    return make(None, options.default, encoder.encode_basestring, None, ":", ",", sort_keys, False, False)


_COMPACT: Final = _encoder(sort_keys=False)
_CANONICAL: Final = _encoder(sort_keys=True)

# orjson reads an integer beyond 64 bits as a double; a number shorter than this fits.
_LONG_NUMBER: Final = re.compile(r"[0-9]{19}", re.ASCII)

LARGEST_SHARED: Final = 65_536
"""The longest JSON text of a step that is parsed in a process shared with other runs: objects outgrow their text."""


class JsonText(str):
    """JSON text in place of its value, which is too large to be parsed in a process that other runs share."""

    __slots__ = ()


def shared(text: str) -> Any:
    """Returns the value of JSON text; the text itself, as `JsonText`, where it is too large."""
    return JsonText(text) if len(text) > LARGEST_SHARED else parse(text)


def text_of(value: object) -> str:
    """Returns the compact JSON text of a value, which may be `JsonText` already."""
    return str(value) if isinstance(value, JsonText) else write(value)


def parse(text: str) -> Any:
    """Returns the value of JSON text; raises ValueError or RecursionError."""
    if _LONG_NUMBER.search(text) is None:
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            pass
    return json.loads(text)


def write(value: object) -> str:
    """Returns compact JSON text; raises ValueError for NaN and infinities."""
    return "".join(_COMPACT(value, 0))


def canonical(value: object) -> str:
    """Returns the canonical JSON text of a value, keys sorted: equal text for equal values."""
    return "".join(_CANONICAL(value, 0))


class UnstorableJsonError(ValueError):
    """The bytes are not JSON that can be stored; the text says why, as in `is not JSON: …`."""


def parse_strict(payload: bytes) -> Any:
    """Returns the value of strict JSON: no NaN, lone surrogate or NUL, numbers within a double, bounded nesting."""
    if NUL_ESCAPE.search(payload):
        raise UnstorableJsonError("holds the character U+0000, which cannot be stored")
    try:
        value = json.loads(payload.decode(), parse_constant=_refuse)
        # Lone surrogates and numbers beyond a double show only when they are written again.
        write(value).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise UnstorableJsonError(f"is not JSON: {error}") from error
    return value


def parse_strict_replacing_nul(payload: bytes) -> Any:
    """Returns the value as `parse_strict`, with U+0000 replaced by U+FFFD."""
    return parse_strict(NUL_ESCAPE.sub(rb"\1\\ufffd", payload))


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no number of JSON")
