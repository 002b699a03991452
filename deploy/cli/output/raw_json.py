"""JSON texts of callers and agents, printed without being parsed."""

import json
import re
from dataclasses import dataclass
from typing import Any, Final

import orjson

_BEYOND_ASCII: Final = re.compile(r"[^\n -~]")


@dataclass(frozen=True, slots=True)
class RawJson:
    """A JSON value as text, of any depth and with integers of any size."""

    text: str

    def value(self) -> Any:
        """Returns the parsed value.

        Raises:
            ValueError: it cannot be parsed, usually because it is nested too deep.
        """
        try:
            return json.loads(self.text)
        except RecursionError as error:
            raise ValueError("nested too deep") from error


def json_text(value: object, *, indented: bool, encoding: str) -> str:
    """Returns a value as JSON text, with each RawJson in it unchanged.

    Control characters, and characters that the encoding lacks, are escaped: the JSON value is the same.
    """
    option = orjson.OPT_PASSTHROUGH_DATACLASS | (orjson.OPT_INDENT_2 if indented else 0)
    text = orjson.dumps(value, default=_as_fragment, option=option).decode(errors="replace")
    return _BEYOND_ASCII.sub(lambda found: _printable_or_escaped(found[0], encoding), text)


def _as_fragment(value: object) -> orjson.Fragment:
    if isinstance(value, RawJson):
        return orjson.Fragment(value.text)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _printable_or_escaped(char: str, encoding: str) -> str:
    if char.isprintable():
        try:
            char.encode(encoding)
        except UnicodeEncodeError:
            pass
        else:
            return char
    return json.dumps(char)[1:-1] if char > "\x7f" else f"\\u{ord(char):04x}"
