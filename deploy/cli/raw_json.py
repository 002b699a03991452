"""JSON text that callers and agents brought, and that a command prints without having to parse it."""

import json
import re
from dataclasses import dataclass
from typing import Any, Final

import orjson

_BEYOND_ASCII: Final = re.compile(r"[^\n -~]")


@dataclass(frozen=True, slots=True)
class RawJson:
    """A JSON value as text: nested as deep and with integers as large as whoever wrote it liked."""

    text: str

    def value(self) -> Any:
        """The value.

        Raises:
            ValueError: it cannot be parsed here, mostly because it is nested too deep.
        """
        try:
            return json.loads(self.text)
        except RecursionError as error:
            raise ValueError("nested too deep") from error


def json_text(value: object, *, indented: bool, encoding: str) -> str:
    """Write a value as JSON, with each RawJson in it as it is.

    Characters that a terminal would act on, or that the encoding lacks, are escaped: the text means the same.
    """
    option = orjson.OPT_PASSTHROUGH_DATACLASS | (orjson.OPT_INDENT_2 if indented else 0)
    text = orjson.dumps(value, default=_as_fragment, option=option).decode(errors="replace")
    return _BEYOND_ASCII.sub(lambda found: _escaped_unless_printable(found[0], encoding), text)


def _as_fragment(value: object) -> orjson.Fragment:
    if isinstance(value, RawJson):
        return orjson.Fragment(value.text)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _escaped_unless_printable(char: str, encoding: str) -> str:
    if char.isprintable():
        try:
            char.encode(encoding)
        except UnicodeEncodeError:
            pass
        else:
            return char
    return json.dumps(char)[1:-1] if char > "\x7f" else f"\\u{ord(char):04x}"
