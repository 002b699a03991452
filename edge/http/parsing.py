"""How a caller's bytes become requests: aiohttp's parser, within bounds and with what it gets wrong mended."""

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final, cast

from aiohttp import web
from aiohttp.http import HttpRequestParser, RawRequestMessage
from aiohttp.http_exceptions import BadHttpMessage, BadHttpMethod
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from aiohttp.web_protocol import RequestHandler, RequestPayloadError, _ErrInfo

from edge.http.api_connections import Guest, Room
from edge.http.request import HttpRequest

MAX_LINE_BYTES: Final = 32_768
"""Longest request target, and longest single header. (DECISIONS.md, Conventions of the JSON)."""

MAX_HEAD_BYTES: Final = 2 * MAX_LINE_BYTES
"""Most bytes of a request line and all headers together."""

MAX_HEADERS: Final = 8_192
"""More than fit into the bytes that a head may have; those are the bound."""

_LIMITS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "max_line_size": MAX_LINE_BYTES,
        "max_field_size": MAX_LINE_BYTES,
        "max_headers": MAX_HEADERS,
        "auto_decompress": False,
    }
)
_HEAD: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}) [^ \r\n]+ HTTP/1\.[01]\r\n(?:[^\r\n]+\r\n)*\r\n")
_KNOWN_METHOD: Final = b"PATCH"


class RequestReader(RequestHandler):
    """The side of a connection that takes bytes."""

    __slots__ = ("_head", "_head_since", "_last_payload", "_room", "broken", "crowded", "held", "waiting_since")

    def __init__(self, manager: web.Server, room: Room, loop: asyncio.AbstractEventLoop, **limits: Any) -> None:
        super().__init__(manager, loop=loop, **_LIMITS, **limits)
        self._room = room
        self.waiting_since = 0.0
        self.held = 0
        self.broken = False
        self.crowded = False
        """Whether there is no room for the body under way."""
        self._head = b""
        self._head_since = 0.0
        self._last_payload: StreamReader = EMPTY_PAYLOAD

    def _new_parser(self) -> HttpRequestParser:
        return HttpRequestParser(
            self,
            self._loop,
            self._read_bufsize,
            payload_exception=RequestPayloadError,
            max_msg_queue_size=self._max_msg_queue_size,
            **_LIMITS,
        )

    def hold(self, size: int) -> bool:
        """Keep so many bytes more for this caller until its call is done; return whether there is room."""
        return self._room.hold(cast("Guest", self), size)

    def data_received(self, data: bytes) -> None:
        """Take bytes from the socket."""
        if self.broken or self.crowded:
            return
        seen = self._request_count
        # What ends a body is no beginning of a head.
        between = self._last_payload.is_eof()
        super().data_received(data)
        if self._request_count != seen:
            if between and not self._head and isinstance(self._messages[-1][0], _ErrInfo):
                self._take_unknown_method(data)
            message, payload = self._messages[-1]
            if isinstance(message, _ErrInfo):
                # Only where nothing else came before it in `data` is it known where the refused head begins.
                alone = self._request_count == seen + 1 and between
                self._head = self._head + data if alone else b""
                self._break(message.exc)
            else:
                self._head = b""
            self._last_payload = payload
            self._head_since = 0.0
            self._request_begins()
        elif data and between:
            self._head += data
            if not self._head_since:
                self._head_since = self._loop.time()
                self._request_begins(self._head_since)
            if len(self._head) > MAX_HEAD_BYTES:
                self._refuse_head()
            # The parser keeps a copy.
            elif not self.hold(len(data)):
                self.force_close()
        if not self.hold(len(data)):
            self._take_no_more()

    def check_head(self, now: float, head_seconds: float) -> None:
        """Close a connection whose caller has not finished its headers in time."""
        if self._head_since and now - self._head_since > head_seconds:
            self.force_close()

    def _request_begins(self, waiting_since: float = 0.0) -> None:
        """End the wait for a request; another begins where only a part of one has come."""
        if not self._request_in_progress:
            self.waiting_since = waiting_since

    def _take_no_more(self) -> None:
        """Refuse the body under way, for which calls under way leave no room, and keep nothing of it."""
        self.crowded = True
        if not self.waiting_since:
            # Nobody reads yet, or ever, what has arrived.
            with suppress(Exception):
                self._last_payload.read_nowait()
        self._last_payload.set_exception(BlockingIOError())

    def _refuse_head(self) -> None:
        error = BadHttpMessage("the request line and headers are too long")
        self._messages.append((_ErrInfo(status=400, exc=error, message=error.message), EMPTY_PAYLOAD))
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        self._break(error)

    def _take_unknown_method(self, data: bytes) -> None:
        """Parse a request again that the parser refused for a method it does not know: it is well-formed all the same.

        What is known is a whole head that begins with `data`; the method is put back once it has been parsed.
        """
        refused_for, _ = self._messages[-1]
        found = _HEAD.match(data)
        if found is None or not isinstance(cast("_ErrInfo", refused_for).exc, BadHttpMethod):
            return
        self._messages.pop()
        position = len(self._messages)
        self._parser = cast("Any", self._new_parser())
        super().data_received(_KNOWN_METHOD + data[found.end(1) :])
        message, payload = self._messages[position]
        if isinstance(message, RawRequestMessage):
            self._messages[position] = message._replace(method=found[1].decode()), payload

    def _break(self, error: BaseException) -> None:
        """Stop parsing; a body that was under way will never be complete."""
        self.broken = True
        failure = RequestPayloadError(str(error))
        for _, payload in self._messages:
            if not payload.is_eof():
                payload.set_exception(failure)
        request = cast("HttpRequest | None", self._current_request)
        if request is not None and request.body_pending:
            request.fail_body(failure)
