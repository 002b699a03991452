"""What aiohttp's low-level server does wrong by itself, mended in a subclass of its connection.

It answers its own parse errors in plain text, cuts lines at 8,190 bytes, leaves whoever reads a body waiting when the
body's framing breaks, bounds neither the sum of the headers nor the time they take, and closes a connection in a way
that loses the answer while the caller still sends. Its parser, its flow control and its book-keeping of connections
are used as they are; the loop that serves one request after the other is our own, and costs less than a task each.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from aiohttp.http import RawRequestMessage
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestPayloadError, _ErrInfo

from edge import metrics
from edge.errors import Refusal
from edge.http.parsing import RequestReader
from edge.http.request import HttpRequest, unreadable
from edge.http.response import Answer, refused

if TYPE_CHECKING:
    from edge.http.server import HttpServer

DISCARD_BYTES: Final = 64 * 1_048_576
"""How much of what a refused caller still sends is read and thrown away, so that it sees the answer."""

DISCARD_SECONDS: Final = 5.0

_LOG = logging.getLogger(__name__)


class Connection(RequestReader):
    """One caller's connection."""

    __slots__ = (
        "_discard_left",
        "_end_wait",
        "_lingering",
        "_stall_seconds",
        "on_lost",
    )

    def __init__(self, server: "HttpServer", loop: asyncio.AbstractEventLoop, **limits: Any) -> None:
        super().__init__(server, server.room, loop, **limits)
        self._stall_seconds = server.stall_seconds
        self._end_wait: Callable[[], object] = self.force_close
        self._lingering: asyncio.Future[None] | None = None
        self._discard_left = DISCARD_BYTES
        self.on_lost: Callable[[], object] | None = None

    @property
    def closing(self) -> bool:
        """Whether the connection serves no further request."""
        return self._close or self._force_close or self.crowded or cast("HttpServer", self._manager).stopping

    @property
    def busy(self) -> bool:
        """Whether a request of this caller has still to be answered."""
        return self._request_in_progress or bool(self._messages)

    @property
    def lost(self) -> bool:
        """Whether the caller has gone."""
        return self.transport is None or self.transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for a caller's first request."""
        self.wait_for(self.force_close)
        super().connection_made(transport)

    async def start(self) -> None:
        """Serve this caller's requests one after the other until either side is done."""
        server = cast("HttpServer", self._manager)
        try:
            while not (self._close or self._force_close):
                message, payload = await self._next_message()
                if not await self._serve(server, message, payload):
                    break
                self._restart_idle_timer()
                if self._messages:
                    # Who asks for much at once waits as long for each as others do for one.
                    await asyncio.sleep(0)
        except ConnectionError:
            _LOG.debug("the caller %s has gone", self.peername)
        finally:
            self.force_close()

    async def _next_message(self) -> tuple[RawRequestMessage | _ErrInfo, StreamReader]:
        if not self._messages:
            self._waiter = self._loop.create_future()
            self.wait_for(self.force_close)
            try:
                await self._waiter
            finally:
                self._waiter = None
        self.waiting_since = 0.0
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
            self._room.release(self)
            if self._handler_waiter is not None and not self._handler_waiter.done():
                self._handler_waiter.set_result(None)

    async def _skip(self, payload: StreamReader) -> bool:
        """Read over a body that nobody wanted; return whether its end was reached."""
        try:
            async with asyncio.timeout(DISCARD_SECONDS):
                while await payload.readany():
                    pass
        except (TimeoutError, RequestPayloadError, BlockingIOError):
            return False
        return True

    def _malformed(self, error: _ErrInfo, request: HttpRequest) -> Answer:
        metrics.MALFORMED.add()
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

    def wait_for(self, end_wait: Callable[[], object]) -> None:
        """Note that the caller keeps the server waiting from now on; `end_wait` ends that for want of room."""
        self.waiting_since = self._loop.time()
        self._end_wait = end_wait

    def lose_patience(self) -> None:
        """Wait no longer for the caller, to whom it may still be told."""
        self._end_wait()

    def evict(self) -> None:
        """End a connection for which there is no room."""
        if self.busy:
            self.abort()
        else:
            self.force_close()

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
        if self.writing_paused and self.transport is not None:
            size = self.transport.get_write_buffer_size()
            if not self.hold(size):
                raise ConnectionResetError("there is no room for what the caller does not read")
            self.wait_for(self.abort)
            try:
                async with asyncio.timeout(self._stall_seconds):
                    await self._drain_helper()
            except TimeoutError:
                raise ConnectionResetError("the caller has stopped reading") from None
            finally:
                self.waiting_since = 0.0
                self._room.release(self, size)

    def abort(self) -> None:
        """End the connection so that the caller cannot take what it got for the whole."""
        if self.transport is not None:
            self.transport.abort()
        self.force_close()

    def data_received(self, data: bytes) -> None:
        """Take bytes from the socket; they are thrown away from a caller that has its answer."""
        if self._lingering is None:
            super().data_received(data)
            return
        self._discard_left -= len(data)
        if self._discard_left <= 0 and not self._lingering.done():
            self._lingering.set_result(None)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Wake whoever waits for this caller."""
        super().connection_lost(exc)
        if self._lingering is not None and not self._lingering.done():
            self._lingering.set_result(None)

    async def linger(self) -> None:
        """Say that nothing more comes, then read on and discard until the caller has seen the answer.

        Closing at once while the caller still sends would reset the connection, and the answer with it.
        """
        if self.lost:
            return
        transport = cast("asyncio.Transport", self.transport)
        self._lingering = self._loop.create_future()
        self._room.release(self)
        self.wait_for(self.force_close)
        try:
            transport.write_eof()
            transport.resume_reading()
            async with asyncio.timeout(DISCARD_SECONDS):
                await self._lingering
        except (OSError, RuntimeError, NotImplementedError, TimeoutError):
            pass
        self.force_close()
