"""What aiohttp's low-level server does wrong by itself, mended in a subclass of its connection.

It answers its own parse errors in plain text, cuts lines at 8,190 bytes, leaves whoever reads a body waiting when the
body's framing breaks, bounds neither the sum of the headers nor the time they take, and closes a connection in a way
that loses the answer while the caller still sends. Its parser, its flow control and its book-keeping of connections
are used as they are; the loop that serves one request after the other is our own, and costs less than a task each.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

from aiohttp.http import HttpRequestParser, RawRequestMessage
from aiohttp.http_exceptions import BadHttpMessage, BadHttpMethod
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from aiohttp.web_protocol import RequestHandler, RequestPayloadError, _ErrInfo

from edge.errors import Refusal
from edge.http_input import HttpRequest, unreadable
from edge.http_output import Answer, refused

if TYPE_CHECKING:
    from edge.http_server import HttpServer

MAX_LINE_BYTES: Final = 32_768
"""Longest request target, and longest single header. (DECISIONS.md, Conventions of the JSON)."""

MAX_HEAD_BYTES: Final = 2 * MAX_LINE_BYTES
"""Most bytes of a request line and all headers together."""

MAX_HEADERS: Final = 8_192
"""More than fit into the bytes that a head may have; those are the bound."""

DISCARD_BYTES: Final = 64 * 1_048_576
"""How much of what a refused caller still sends is read and thrown away, so that it sees the answer."""

DISCARD_SECONDS: Final = 5.0

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

_LOG = logging.getLogger(__name__)


class Connection(RequestHandler):
    """One caller's connection."""

    __slots__ = (
        "_discard_left",
        "_head",
        "_head_since",
        "_last_payload",
        "_lingering",
        "_stall_seconds",
        "broken",
        "on_lost",
    )

    def __init__(self, server: "HttpServer", loop: asyncio.AbstractEventLoop, **limits: Any) -> None:
        super().__init__(server, loop=loop, **_LIMITS, **limits)
        self._stall_seconds = server.stall_seconds
        self.broken = False
        self._head = b""
        self._head_since = 0.0
        self._last_payload: StreamReader = EMPTY_PAYLOAD
        self._lingering: asyncio.Future[None] | None = None
        self._discard_left = DISCARD_BYTES
        self.on_lost: Callable[[], object] | None = None

    def _new_parser(self) -> HttpRequestParser:
        return HttpRequestParser(
            self,
            self._loop,
            self._read_bufsize,
            payload_exception=RequestPayloadError,
            max_msg_queue_size=self._max_msg_queue_size,
            **_LIMITS,
        )

    @property
    def closing(self) -> bool:
        """Whether the connection serves no further request."""
        return self._close or self._force_close or cast("HttpServer", self._manager).stopping

    @property
    def busy(self) -> bool:
        """Whether a request of this caller has still to be answered."""
        return self._request_in_progress or bool(self._messages)

    @property
    def unheard(self) -> bool:
        """Whether the caller has connected and not made a request yet."""
        return self._request_count == 0 and not self.lost

    @property
    def lost(self) -> bool:
        """Whether the caller has gone."""
        return self.transport is None or self.transport.is_closing()

    async def start(self) -> None:
        """Serve this caller's requests one after the other until either side is done."""
        server = cast("HttpServer", self._manager)
        try:
            while not (self._close or self._force_close):
                message, payload = await self._next_message()
                if not await self._serve(server, message, payload):
                    break
                self._restart_idle_timer()
        except ConnectionError:
            _LOG.debug("the caller %s has gone", self.peername)
        finally:
            self.force_close()

    async def _next_message(self) -> tuple[RawRequestMessage | _ErrInfo, StreamReader]:
        if not self._messages:
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        taken = self._messages.popleft()
        if self._parser is not None:
            self._parser.message_consumed()
        if self._buffer_paused and len(self._messages) <= self._msg_queue_resume_size:
            self._resume_reading_if_drained()
        return taken

    async def _serve(self, server: "HttpServer", message: RawRequestMessage | _ErrInfo, payload: StreamReader) -> bool:
        """Answer one request; return whether the connection is kept."""
        self._request_in_progress = True
        try:
            if isinstance(message, _ErrInfo):
                request = HttpRequest(unreadable(self._head), payload, self)
                answer = self._malformed(message, request)
            else:
                request = HttpRequest(message, payload, self)
                self._current_request = cast("Any", request)
                answer = await server.answer(request)
            await answer.send(request)
            return answer.keep_alive and (payload.is_eof() or await self._skip(payload))
        finally:
            self._current_request = None
            self._request_in_progress = False
            if self._handler_waiter is not None and not self._handler_waiter.done():
                self._handler_waiter.set_result(None)

    async def _skip(self, payload: StreamReader) -> bool:
        """Read over a body that nobody wanted; return whether its end was reached."""
        try:
            async with asyncio.timeout(DISCARD_SECONDS):
                while await payload.readany():
                    pass
        except (TimeoutError, RequestPayloadError):
            return False
        return True

    def _malformed(self, error: _ErrInfo, request: HttpRequest) -> Answer:
        # The parser's own words quote the request, a credential among its headers.
        kind = type(error.exc).__name__
        _LOG.info("malformed request from %s, request %s: %s", self.peername, request.request_id, kind)
        try:
            request.check_length()
        except Refusal as too_large:
            return refused(too_large, request)
        problem = {"name": "request", "reason": "is not well-formed HTTP"}
        return refused(Refusal("invalid_request", details=[problem]), request)

    def _restart_idle_timer(self) -> None:
        self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout
        if self._keepalive_handle is None:
            self._keepalive_handle = self._loop.call_at(self._next_keepalive_close_time, self._process_keepalive)

    def write(self, data: bytes) -> None:
        """Queue bytes for the caller.

        Raises:
            ConnectionResetError: the caller has gone.
        """
        if self.transport is None or self.transport.is_closing():
            raise ConnectionResetError("the caller has gone")
        self.transport.write(data)

    async def drain(self) -> None:
        """Wait until the caller has taken enough of what is queued.

        Raises:
            ConnectionResetError: the caller has gone, or has taken too little for too long.
        """
        if self.writing_paused:
            try:
                async with asyncio.timeout(self._stall_seconds):
                    await self._drain_helper()
            except TimeoutError:
                raise ConnectionResetError("the caller has stopped reading") from None

    def abort(self) -> None:
        """End the connection so that the caller cannot take what it got for the whole."""
        if self.transport is not None:
            self.transport.abort()
        self.force_close()

    def data_received(self, data: bytes) -> None:
        """Take bytes from the socket."""
        if self._lingering is not None:
            self._discard(len(data))
            return
        if self.broken:
            return
        seen = self._request_count
        super().data_received(data)
        if self._request_count != seen:
            if isinstance(self._messages[-1][0], _ErrInfo):
                self._take_unknown_method(data)
            message, payload = self._messages[-1]
            if isinstance(message, _ErrInfo):
                # Only where nothing else came before it in `data` is it known where the refused head begins.
                alone = self._request_count == seen + 1 and self._last_payload.is_eof()
                self._head = self._head + data if alone else b""
                self._break(message.exc)
            else:
                self._head = b""
            self._last_payload = payload
            self._head_since = 0.0
        elif data and self._last_payload.is_eof():
            self._head += data
            self._head_since = self._head_since or self._loop.time()
            if len(self._head) > MAX_HEAD_BYTES:
                self._refuse_head()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Wake whoever waits for this caller."""
        super().connection_lost(exc)
        if self._lingering is not None and not self._lingering.done():
            self._lingering.set_result(None)

    def check_head(self, now: float, head_seconds: float) -> None:
        """Close a connection whose caller has not finished its headers in time."""
        if self._head_since and now - self._head_since > head_seconds:
            self.force_close()

    async def linger(self) -> None:
        """Say that nothing more comes, then read on and discard until the caller has seen the answer.

        Closing at once while the caller still sends would reset the connection, and the answer with it.
        """
        if self.lost:
            return
        transport = cast("asyncio.Transport", self.transport)
        self._lingering = self._loop.create_future()
        try:
            transport.write_eof()
            transport.resume_reading()
            async with asyncio.timeout(DISCARD_SECONDS):
                await self._lingering
        except (OSError, RuntimeError, NotImplementedError, TimeoutError):
            pass
        self.force_close()

    def _discard(self, size: int) -> None:
        self._discard_left -= size
        if self._discard_left <= 0 and self._lingering is not None and not self._lingering.done():
            self._lingering.set_result(None)

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
        begins = not self._head and self._last_payload.is_eof()
        if found is None or not begins or not isinstance(cast("_ErrInfo", refused_for).exc, BadHttpMethod):
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
