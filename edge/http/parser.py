"""Parser of HTTP/1.1 requests: llhttp, within bounds on lines, heads and framing."""

import re
from collections import deque
from collections.abc import Sequence
from typing import Final

from httptools import (
    HttpParserCallbackError,
    HttpParserError,
    HttpParserInvalidMethodError,
    HttpParserUpgrade,
    HttpRequestParser,
)
from yarl import URL

from edge.http.body import BodyFailure, RequestBody
from edge.http.message import RequestMessage, malformed_head, malformed_request

MAX_LINE_BYTES: Final = 32_768
"""Longest request target, and longest single header (contract 4.19)."""

MAX_HEAD_BYTES: Final = 2 * MAX_LINE_BYTES
"""Most bytes of a request line and all headers together."""

_MAX_HEADERS: Final = 8_192
_TARGET_BOUND: Final = f"must have a target of at most {MAX_LINE_BYTES:,} bytes in its request line"
_HEADER_BOUND: Final = f"must have headers of at most {MAX_LINE_BYTES:,} bytes each"
_HEADERS_BOUND: Final = f"must have at most {_MAX_HEADERS:,} headers"
_HEAD_BOUND: Final = f"must have a request line and headers of at most {MAX_HEAD_BYTES:,} bytes together"
BOUNDS: Final = frozenset({_TARGET_BOUND, _HEADER_BOUND, _HEADERS_BOUND, _HEAD_BOUND})
"""Reasons of malformed requests that are told to the caller: which bound a head exceeds."""

# Pipelined requests are parsed a few at a time: as objects they take a hundred times their bytes.
_PIECE_BYTES: Final = 4_096

_REQUEST_LINE: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}) [^ \r\n]+ HTTP/1\.[01]\r\n")
_KNOWN_METHOD: Final = b"PATCH"
# Without them a connection is kept only by HTTP/1.1, which saves asking llhttp for the version.
_CONNECTION_HEADERS: Final = frozenset({"connection", "proxy-connection"})
_SINGLE_HEADERS: Final = frozenset(
    {
        "content-length",
        "content-location",
        "content-range",
        "content-type",
        "etag",
        "host",
        "max-forwards",
        "server",
        "transfer-encoding",
        "user-agent",
    }
)


# A name that is known is found in a third of the time that it takes to decode it.
_KNOWN_NAMES: Final = {
    spelling.encode(): name.lower()
    for name in (
        *("Accept", "Accept-Encoding", "Accept-Language", "Authorization", "Connection", "Content-Length"),
        *("Content-Type", "Host", "Idempotency-Key", "If-None-Match", "Origin", "Referer", "User-Agent"),
        *("X-Forwarded-For", "X-Request-Id", "X-Service-Key-External-Id"),
    )
    for spelling in (name, name.lower())
}


class MalformedRequestError(Exception):
    """Raised within callbacks of llhttp for what it accepts and this server refuses."""


class RequestParser:
    """Parses the bytes of one connection into requests.

    At most one piece of input is parsed ahead of the request being served; the rest waits in `has_rest`.
    The methods `on_...` are called by llhttp.
    """

    __slots__ = (
        "_body",
        "_head",
        "_headers",
        "_in_head",
        "_llhttp",
        "_max_body_bytes",
        "_method",
        "_position",
        "_rest",
        "_resumed",
        "_target",
        "_unframed",
        "_upgrading",
        "broken",
        "has_rest",
        "last_body",
        "messages",
    )

    def __init__(self, max_body_bytes: int) -> None:
        self.messages: deque[RequestMessage] = deque()
        """Requests that are parsed and not yet taken; bodies may still be under way."""
        self.broken = False
        """Whether nothing that follows can be parsed."""
        self.last_body: RequestBody | None = None
        """The body of the latest request."""
        self.has_rest = False
        """Whether input waits until the parsed requests are taken."""
        self._max_body_bytes = max_body_bytes
        self._llhttp: HttpRequestParser | None = HttpRequestParser(self)
        self._rest, self._position = b"", 0
        self._in_head = False
        self._head = bytearray()
        self._headers: dict[str, list[str]] = {}
        self._method = ""
        self._target = b""
        self._body: RequestBody | None = None
        self._unframed = 0
        self._upgrading = False
        self._resumed = False

    @property
    def in_head(self) -> bool:
        """Returns whether a request line or headers have begun and not ended."""
        return self._in_head or bool(self._head)

    def feed(self, data: bytes) -> None:
        """Parses input until a parsed request waits to be taken, and keeps the rest."""
        if len(data) <= _PIECE_BYTES and not self.messages and not self._rest:
            self._parse(data)
        else:
            self._rest, self._position = self._rest[self._position :] + data, 0
            self.feed_rest()

    def feed_rest(self) -> None:
        """Continues with the input that waits."""
        while self._position < len(self._rest) and not self.messages and not self.broken:
            start, self._position = self._position, self._position + _PIECE_BYTES
            self._parse(self._rest[start : self._position])
        self.has_rest = self._position < len(self._rest)
        if not self.has_rest:
            self._rest, self._position = b"", 0

    def close(self) -> None:
        """Stops parsing and drops all input."""
        self.broken = True
        self._llhttp = None
        self.has_rest = False
        self._rest, self._position = b"", 0

    def _parse(self, data: bytes) -> None:
        if self._llhttp is None:
            return
        known, in_body = len(self.messages), self._body is not None
        self._unframed += len(data)
        try:
            self._llhttp.feed_data(data)
        except HttpParserUpgrade as upgrade:
            self._decline_upgrade(data[upgrade.args[0] :])
        except HttpParserError as error:
            alone = known == len(self.messages) and not in_body
            if alone and isinstance(error, HttpParserInvalidMethodError) and self._parse_unknown_method(data):
                return
            self._break_off(_reason(error), data, alone=alone)
        else:
            if self._in_head or self._head or self._body is not None or known == len(self.messages):
                self._check_size(data, alone=known == len(self.messages) and not in_body)

    def _check_size(self, data: bytes, *, alone: bool) -> None:
        """Keeps the bytes of an unfinished head for its refusal; `alone` says that `data` holds nothing else."""
        # Blank lines in front of a request count as well.
        if self._in_head or (alone and self._body is None):
            if alone:
                self._head += data
            if len(self._head) > MAX_HEAD_BYTES:
                self._break_off(_HEAD_BOUND, b"", alone=True)
        elif self._head:
            self._head.clear()
        # Neither an extension of a chunk nor a trailer goes on for longer than a head may.
        if self._body is not None and self._unframed > MAX_HEAD_BYTES + _PIECE_BYTES:
            self._break_off("the framing of the body is too long", b"", alone=False)

    def _parse_unknown_method(self, data: bytes) -> bool:
        """Parses a request whose method llhttp does not know under another one; returns whether it has the form."""
        found = _REQUEST_LINE.match(data)
        if found is None or self._head:
            return False
        self._method = found[1].decode()
        self._llhttp = HttpRequestParser(self)
        self._parse(_KNOWN_METHOD + data[found.end(1) :])
        return True

    def _decline_upgrade(self, rest: bytes) -> None:
        """Reads the body of a request that asked for an upgrade, in front of which llhttp stops."""
        self._upgrading = False
        body = self._body
        if body is None:
            self.close()
            return
        length = self._headers.get("content-length")
        framing = f"Content-Length: {length[0]}" if length else "Transfer-Encoding: chunked"
        self._llhttp = HttpRequestParser(self)
        self._resumed = True
        self._parse(f"POST / HTTP/1.1\r\nHost: none\r\n{framing}\r\n\r\n".encode() + rest)

    def _break_off(self, reason: str, data: bytes, *, alone: bool) -> None:
        """Stops parsing: the body of a request that is being served fails, anything else is a malformed request."""
        if self._body is not None and not self.messages:
            self._body.fail(BodyFailure.MALFORMED)
        elif self._body is not None:
            self.messages.append(malformed_request(self.messages.pop(), reason))
        else:
            # Where other requests came before it in the same piece, it is not known where the head begins.
            rest = self._rest[self._position :]
            head = bytes(self._head) + data + rest if alone else b""
            self.messages.append(malformed_head(head, reason))
        self.last_body = self._body = None
        self._in_head = False
        self._head.clear()
        self.close()

    def on_message_begin(self) -> None:
        """Begins a request."""
        if self._resumed:
            return
        self._in_head = True
        self._headers = {}
        self._target = b""

    def on_url(self, part: bytes) -> None:
        """Adds a part of the request target."""
        if self._in_head:
            self._target += part
            if len(self._target) > MAX_LINE_BYTES:
                raise MalformedRequestError(_TARGET_BOUND)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Adds a header; trailers are ignored."""
        if not self._in_head:
            return
        key = _KNOWN_NAMES.get(name) or name.decode().lower()
        text = value.decode("utf-8", "surrogateescape").rstrip(" \t")
        values = self._headers.get(key)
        if values is None:
            self._headers[key] = [text]
        elif key in _SINGLE_HEADERS:
            raise MalformedRequestError("a header that may occur once is repeated")
        else:
            values.append(text)

    def on_headers_complete(self) -> None:
        """Makes the request."""
        if self._resumed:
            self._resumed = False
            return
        llhttp, headers = self._llhttp, self._headers
        assert llhttp is not None
        self._in_head = False
        method = self._method or llhttp.get_method().decode()
        self._method = ""
        target = self._target.decode("utf-8", "surrogateescape")
        keep_alive = llhttp.should_keep_alive()
        version = "1.1" if keep_alive and _CONNECTION_HEADERS.isdisjoint(headers) else llhttp.get_http_version()
        if version == "1.1" and "host" not in headers:
            raise MalformedRequestError("the header Host is missing")
        if not (target.startswith("/") or _is_target(method, target)):
            raise MalformedRequestError("the request target has no host")
        if self._head:
            _check_lines(headers)
        self._upgrading = llhttp.should_upgrade()
        if method != "CONNECT" and _announces_body(headers):
            self._body = RequestBody(self._max_body_bytes)
        keep_alive = keep_alive and not self._upgrading
        self.last_body = self._body
        self._unframed = 0
        self.messages.append(RequestMessage(method, target, headers, version < "1.1", keep_alive, self._body))

    def on_body(self, data: bytes) -> None:
        """Adds a part of the body."""
        self._unframed = 0
        if self._body is not None:
            self._body.feed(data)

    def on_message_complete(self) -> None:
        """Ends the request."""
        if self._body is not None and not self._upgrading:
            self._body.finish()
            self._body = None


def _reason(error: HttpParserError) -> str:
    """Returns why a request is refused, in words that quote nothing of it."""
    cause = error.__context__ if isinstance(error, HttpParserCallbackError) else error
    if not isinstance(cause, HttpParserError | MalformedRequestError):
        raise error
    return str(cause)


def _announces_body(headers: dict[str, list[str]]) -> bool:
    # llhttp has refused other lengths than digits, and codings that do not end with chunked.
    if "transfer-encoding" in headers:
        return True
    length = headers.get("content-length")
    return length is not None and bool(length[0].lstrip("0"))


def _check_lines(headers: dict[str, list[str]]) -> None:
    """Bounds the headers of a long head.

    Raises:
        MalformedRequestError: a header is too long, or there are too many.
    """
    if sum(map(len, headers.values())) > _MAX_HEADERS:
        raise MalformedRequestError(_HEADERS_BOUND)
    if any(_longest(values) + len(name) > MAX_LINE_BYTES for name, values in headers.items()):
        raise MalformedRequestError(_HEADER_BOUND)


def _longest(values: Sequence[str]) -> int:
    return max(map(len, values))


def _is_target(method: str, target: str) -> bool:
    """Returns whether a target that is no path has a form that the method allows."""
    if method == "OPTIONS" and target == "*":
        return True
    try:
        if method == "CONNECT":
            return URL.build(authority=target, encoded=True).raw_host is not None
        rest = target.partition(":")[2]
        if rest[:2] != "//" or rest[2:3] in {"", "/", "?", "#"}:
            return False
        return URL(target, encoded=True).raw_host is not None
    except ValueError:
        return False
