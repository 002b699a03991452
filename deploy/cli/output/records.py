"""Converts messages to records of the JSON API, with the codec that the edge uses."""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final

import orjson
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from contract.json_codec.response import object_of
from deploy.cli.output.raw_json import RawJson

PAGE: Final = 100
"""Size of the pages that lists are read in."""


@cache
def _object_of(descriptor: Descriptor) -> Callable[[Message], dict[str, Any]]:
    return object_of(descriptor, raw=RawJson, links=orjson.loads)


def with_nulls(record: dict[str, Any]) -> dict[str, Any]:
    """Returns an internal record in the API's form: `<name>_ms` as the timestamp `<name>`, empty text as null."""
    return {name: None if value == "" else value for name, value in record.items()}


def items_of(pages: Iterable[Message]) -> list[dict[str, Any]]:
    """Returns the items of all pages of a list, each as `record_of` has it."""
    return [item for page in pages for item in record_of(page)["items"]]


def record_of(message: Message) -> dict[str, Any]:
    """Returns a message as the API's JSON object; JSON values of callers and agents are RawJson."""
    return _object_of(message.DESCRIPTOR)(message)
