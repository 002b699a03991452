"""Messages as the records of the JSON API, by the one codec that says them over HTTP as well."""

from functools import cache
from typing import Any

import orjson
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from edge.codec.response import ResponseCodec


@cache
def _codec(descriptor: Descriptor) -> ResponseCodec:
    return ResponseCodec(descriptor)


def record_of(message: Message) -> dict[str, Any]:
    """Return a message as the JSON object that the API would answer."""
    record: dict[str, Any] = orjson.loads(_codec(message.DESCRIPTOR).encode(message))
    return record
