"""One parsed request, before the edge interprets it."""

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from edge.http.body import RequestBody

_HEADER_LINE: Final = re.compile(rb"\r\n([A-Za-z0-9-]+):[ \t]*([^\x00-\x1f\x7f]*?)[ \t]*(?=\r\n)")


class RequestMessage(NamedTuple):
    """Request line, headers and body.

    Attributes:
        method: As sent.
        target: As sent; bytes that are no UTF-8 are surrogates, here and in the values of headers.
        headers: Values by name in lower case, in the order of arrival.
        before_http_1_1: Whether the version is lower than 1.1.
        keep_alive: Whether the caller allows another request on the connection.
        body: None where the headers announce none.
        malformed: Why it is no well-formed HTTP, where the rest is only what could be recognized; else empty.
    """

    method: str
    target: str
    headers: Mapping[str, Sequence[str]]
    before_http_1_1: bool
    keep_alive: bool
    body: RequestBody | None
    malformed: str = ""


def malformed_head(head: bytes, reason: str) -> RequestMessage:
    """Returns the message for a head that cannot be parsed, with the headers that are recognizable in it."""
    headers: dict[str, list[str]] = {}
    for name, value in _HEADER_LINE.findall(head.partition(b"\r\n\r\n")[0] + b"\r\n"):
        headers.setdefault(name.decode().lower(), []).append(value.decode("utf-8", "surrogateescape"))
    return RequestMessage("UNKNOWN", "/", headers, False, False, None, malformed=reason)


def malformed_request(message: RequestMessage, reason: str) -> RequestMessage:
    """Returns the message for a request whose body cannot be parsed."""
    return message._replace(method="UNKNOWN", target="/", keep_alive=False, body=None, malformed=reason)
