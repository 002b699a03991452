"""What aiohttp's low-level server does wrong by itself, mended in a subclass of its connection.

It answers its own parse errors in plain text, cuts lines at 8,190 bytes, leaves whoever reads a body waiting when the
body's framing breaks, bounds neither the sum of the headers nor the time they take, and closes a connection in a way
that loses the answer while the caller still sends.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from aiohttp.web_protocol import RequestHandler, RequestPayloadError, _ErrInfo

from edge.errors import Refusal
from edge.http_input import HttpRequest
from edge.http_output import Answer, refused

MAX_LINE_BYTES: Final = 32_768
"""Longest request target, and longest single header. (DECISIONS.md, Conventions of the JSON)."""

MAX_HEAD_BYTES: Final = 2 * MAX_LINE_BYTES
"""Most bytes of a request line and all headers together."""

MAX_HEADERS: Final = 200

DISCARD_BYTES: Final = 8 * 1_048_576
"""How much of what a refused caller still sends is read and thrown away, so that it sees the answer."""

DISCARD_SECONDS: Final = 5.0

_LOG = logging.getLogger(__name__)


class Connection(RequestHandler):
    """One caller's connection."""

    __slots__ = (
        "_discard_left",
        "_head_bytes",
        "_head_since",
        "_last_payload",
        "_lingering",
        "broken",
        "on_lost",
    )

    def __init__(self, server: "HttpServer", **limits: Any) -> None:
        super().__init__(server, **limits)
        self.broken = False
        self._head_bytes = 0
        self._head_since = 0.0
        self._last_payload: StreamReader = EMPTY_PAYLOAD
        self._lingering: asyncio.Future[None] | None = None
        self._discard_left = DISCARD_BYTES
        self.on_lost: Callable[[], object] | None = None

    @property
    def closing(self) -> bool:
        """Whether the connection serves no further request."""
        return self._close or self._force_close

    @property
    def lost(self) -> bool:
        """Whether the caller has gone."""
        return self.transport is None or self.transport.is_closing()

    def write(self, data: bytes) -> None:
        """Queue bytes for the caller.

        Raises:
            ConnectionResetError: the caller has gone.
        """
        if self.transport is None or self.transport.is_closing():
            raise ConnectionResetError("the caller has gone")
        self.transport.write(data)

    async def drain(self, stall_seconds: float) -> None:
        """Wait until the caller has taken enough of what is queued.

        Raises:
            ConnectionResetError: the caller has gone, or took nothing for `stall_seconds`.
        """
        if self.writing_paused:
            try:
                async with asyncio.timeout(stall_seconds):
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
            message, self._last_payload = self._messages[-1]
            self._head_bytes = 0
            self._head_since = 0.0
            if isinstance(message, _ErrInfo):
                self._break(message.exc)
        elif data and self._last_payload.is_eof():
            self._head_bytes += len(data)
            self._head_since = self._head_since or self._loop.time()
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse_head()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Wake whoever waits for this caller."""
        super().connection_lost(exc)
        if self._lingering is not None and not self._lingering.done():
            self._lingering.set_result(None)
        if self.on_lost is not None:
            self.on_lost()

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

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what the parser refused, or a defect of the handler, with the envelope."""
        ours = cast("HttpRequest", request)
        if status == 400:
            _LOG.info("malformed request from %s, request %s: %s", self.peername, ours.request_id, message)
            refusal = Refusal("invalid_request", details=[{"name": "request", "reason": "is not well-formed HTTP"}])
        else:
            _LOG.error("request %s failed", ours.request_id, exc_info=exc)
            refusal = Refusal("internal")
        answer = refused(refusal, ours)
        answer.keep_alive = False
        return cast("web.StreamResponse", answer)


class HttpServer(web.Server):
    """Makes a `Connection` for every caller."""

    def __init__(self, handler: Callable[[HttpRequest], Awaitable[Answer]], idle_seconds: float) -> None:
        super().__init__(
            cast("Any", handler),
            request_factory=cast("Any", HttpRequest),
            keepalive_timeout=idle_seconds,
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_LINE_BYTES,
            max_headers=MAX_HEADERS,
            auto_decompress=False,
            access_log=None,
        )

    def __call__(self) -> Connection:
        """Return the protocol of a new connection."""
        return Connection(self, loop=self._loop, **self._kwargs)

    def check_heads(self, head_seconds: float) -> None:
        """Close every connection whose caller takes too long over its headers."""
        now = self._loop.time()
        for connection in self.connections:
            cast("Connection", connection).check_head(now, head_seconds)
