"""Holding what the backend answers to the OpenAPI description of it."""

from functools import cache
from typing import Any, TypeVar

import orjson
from google.protobuf.message import Message
from jsonschema import Draft202012Validator

from contract.json_codec.response import ResponseCodec
from edge.openapi.document import openapi_document
from tests.support.schemas import FORMATS, strict

_Message = TypeVar("_Message", bound=Message)


def assert_described(message: _Message) -> _Message:
    """Returns the message; fails where the JSON that the edge makes of it is not as described."""
    codec, validator = _judge(message.DESCRIPTOR)
    value = orjson.loads(codec.encode(message))
    assert [f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)] == []
    return message


@cache
def _judge(message: Any) -> tuple[ResponseCodec, Draft202012Validator]:
    components = strict(orjson.loads(openapi_document("localhost"))["components"])
    schema = {"$ref": f"#/components/schemas/{message.name}", "components": components}
    return ResponseCodec(message), Draft202012Validator(schema, format_checker=FORMATS)
