"""Records of the JSON API, made from messages by the edge's codec; JSON of callers and agents stays unparsed."""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import orjson

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message


_BEYOND_ASCII: Final = re.compile(r"[^\n -~]")

PAGE: Final = 100
"""Page size with which lists are read."""


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
    """Returns a value as JSON text; each RawJson inside stays unchanged.

    Control characters, and characters that the encoding lacks, are escaped: the JSON value is the same.
    """
    option = orjson.OPT_PASSTHROUGH_DATACLASS | (orjson.OPT_INDENT_2 if indented else 0)
    text = orjson.dumps(value, default=_as_fragment, option=option).decode(errors="replace")
    return _BEYOND_ASCII.sub(lambda found: _printable_or_escaped(found[0], encoding), text)


def with_nulls(record: dict[str, Any]) -> dict[str, Any]:
    """Returns an internal record in the API's form: `<name>_ms` as the timestamp `<name>`, empty text as null."""
    return {name: None if value == "" else value for name, value in record.items()}


def items_of(pages: Iterable["Message"]) -> list[dict[str, Any]]:
    """Returns the items of all pages of a list, each converted by `record_of`."""
    return [item for page in pages for item in record_of(page)["items"]]


def record_of(message: "Message") -> dict[str, Any]:
    """Returns a message as the API's JSON object; JSON values of callers and agents are RawJson."""
    return _object_of(message.DESCRIPTOR)(message)


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


@cache
def _object_of(descriptor: "Descriptor") -> Callable[["Message"], dict[str, Any]]:
    from contract.json_codec.response import object_of

    return object_of(descriptor, raw=RawJson, links=orjson.loads)
