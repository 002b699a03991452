"""Requests for the pages of a list."""

from typing import Any, TypeVar, cast

from google.protobuf.message import Message

Request = TypeVar("Request", bound=Message)


def next_page(request: Request, token: str) -> Request:
    """Returns the request for the page that a token stands for."""
    following: Any = type(request)()
    following.CopyFrom(request)
    following.page_token = token
    return cast("Request", following)
