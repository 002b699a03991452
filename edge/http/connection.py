"""Connection of one HTTP caller: aiohttp's protocol, with bounds on time, input and kept bytes."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, cast

from aiohttp import StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import RawRequestMessage

from contract.connections import BoundedConnection, BufferLimiter, ConnectionLimiter, Timeouts, WaitKind
from contract.refusals import Refusal
from edge import metrics
from edge.http.framing import (
    IN_BODY,
    MAX_HEADERS,
    MAX_LINE_BYTES,
    NO_REQUEST,
    BrokenChunksError,
    Part,
    RequestFraming,
)
from edge.http.request import BodyFailure, HttpRequest, message_of
from edge.http.request_log import RequestLog
from edge.http.response import CLOSED, KEPT, Answer, MalformedAnswer, refused
from telemetry.requests import ABORTED, CLIENT_GONE

DISCARD_BYTES: Final = 64 * 1_048_576
"""Bytes that a refused caller still sends and that are read and discarded, so that it sees the answer."""

DISCARD_SECONDS: Final = 5.0

# An unread body is kept up to twice this, and beyond it the bytes of one read of the socket.
_BODY_BUFFER_BYTES: Final = 65_536

_LOG = logging.getLogger(__name__)


class Host(Protocol):
    """The server of a connection, as the connection uses it."""

    timeouts: Timeouts
    limiter: "ConnectionLimiter[Connection]"
    buffers: "BufferLimiter[Connection]"
    request_log: RequestLog
    stopping: bool
    """True once each connection ends with the answer under way."""

    @property
    def handler(self) -> Callable[[HttpRequest], Awaitable[Answer]]:
        """Returns the function that answers a well-formed request."""


class Connection(BoundedConnection, web.RequestHandler):
    """Serves the requests of one caller, one after the other."""

    def __init__(self, server: web.Server, host: Host) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # aiohttp takes None, but this annotation lacks it
            auto_decompress=False,
            # `Timeouts` bound idle connections; aiohttp's own timeout would also end one whose head is under way.
            keepalive_timeout=host.timeouts.idle + host.timeouts.head,
            # The listening socket has set it.
            tcp_keepalive=False,
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_LINE_BYTES,
            max_headers=MAX_HEADERS,
            lingering_time=DISCARD_SECONDS,
            read_bufsize=_BODY_BUFFER_BYTES,
        )
        self.reserved_bytes = 0
        self.on_lost: Callable[[], object] | None = None
        """Called when the connection ends while a request is being served."""
        self.on_ended: Callable[[], object] | None = None
        """Called when the caller stops sending while a request is being served; it may still read the answer."""
        self.ended = False
        """True once the caller sends no more."""
        self.closing = False
        """True once the connection serves no further request."""
        self._host = host
        self._framing = RequestFraming(super().data_received)
        self._request: HttpRequest | None = None
        self._writer: AbstractStreamWriter | None = None
        self._malformed: str | None = None
        self._lingering: asyncio.Future[None] | None = None
        self._discard_left = DISCARD_BYTES
        self._body_buffer_full = False
        self._out_of_memory = False
        self._sent = 0
        self._aborted = False

    @property
    def busy(self) -> bool:
        """Returns whether a request of this caller has still to be answered."""
        return self._request is not None or self._framing.part is Part.PARSED

    @property
    def lost(self) -> bool:
        """Returns whether nothing can be sent any more."""
        return self.transport is None or self.transport.is_closing()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Ends every wait for this caller; called by the transport."""
        super().connection_lost(exc)
        self._host.buffers.release(self)
        self._framing.close()
        if self._request is not None:
            self._request.fail_body(BodyFailure.INCOMPLETE)
            if self.on_lost is not None:
                self.on_lost()
        self._end_lingering()

    def eof_received(self) -> bool:  # type: ignore[override]  # asyncio's own signature
        """Ends the connection of a caller that sends no more, once its whole requests are answered."""
        self.ended = True
        if self._lingering is not None:
            self._end_lingering()
            return False
        if not self.busy or (self._framing.part in IN_BODY and not self._framing.has_rest):
            # The transport closes itself.
            return False
        if self.on_ended is not None:
            self.on_ended()
        return True

    def data_received(self, data: bytes) -> None:
        """Takes bytes from the socket; aiohttp calls it without bytes to go on with the input it keeps."""
        if not data:
            super().data_received(data)
        elif self._lingering is not None:
            self._discard_left -= len(data)
            if self._discard_left <= 0:
                self._end_lingering()
        elif self._framing.part is not Part.DISCARDED:
            # aiohttp drops the rest of a body whose request has been answered.
            dropped = self._request is None and self._framing.part in IN_BODY
            self._parse(data)
            if self._request is None and self._framing.part is Part.HEAD:
                self._note_head(len(data))
            if not (dropped or self._host.buffers.reserve(self, len(data))):
                self._refuse_input()

    def _parse(self, data: bytes = b"") -> None:
        """Gives input to the parser; stops reading the socket while input waits for the request ahead."""
        framing = self._framing
        try:
            framing.take(data)
        except BrokenChunksError:
            if self._request is not None:
                self._request.fail_body(BodyFailure.MALFORMED)
        if framing.has_rest:
            if self.transport is not None:
                self.transport.pause_reading()
            if framing.part is not Part.PARSED:
                asyncio.get_running_loop().call_soon(self._parse_rest)
        elif self.ended and framing.part in IN_BODY and self.transport is not None:
            self.transport.close()
        if self._request is not None:
            self._check_end_of_body()
        elif framing.part is Part.PARSED:
            self.end_wait()

    def _check_end_of_body(self) -> None:
        """Fails a body whose end the parser did not see: aiohttp drops some framing, such as a trailer, silently."""
        request = self._request
        if request is not None and self._framing.part not in IN_BODY and not self._body_buffer_full:
            request.check_end()

    def _parse_rest(self) -> None:
        self._parse()
        if not (self._framing.has_rest or self._body_buffer_full) and self.transport is not None:
            self.transport.resume_reading()

    def _note_head(self, size: int) -> None:
        """Counts the wait for the rest of a head as the caller's."""
        if not self._framing.in_head:
            return
        if self.wait_kind is WaitKind.REQUEST:
            self.wait_for(WaitKind.HEAD)
        # The parser keeps a copy of an unfinished head.
        if not self.reserve_bytes(size):
            self.force_close()

    def pause_reading(self) -> None:
        """Notes that the body is not read as fast as it arrives; called by aiohttp."""
        self._body_buffer_full = True
        super().pause_reading()

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Notes that the body has been read; called by aiohttp."""
        self._body_buffer_full = False
        super().resume_reading(resume_parser)
        if self._framing.has_rest and self.transport is not None:
            self.transport.pause_reading()
        self._check_end_of_body()

    def begin(self, message: RawRequestMessage, content: StreamReader, writer: AbstractStreamWriter) -> None:
        """Takes the next request; `message` names the method `NO_REQUEST` where the parser refused the head."""
        self._writer, self._sent = writer, 0
        method = self._framing.begin(message)
        if message.method == NO_REQUEST:
            self._malformed, headers = self._framing.malformed()
            message = message_of(method, "/", headers)
        self._request = HttpRequest(message, method, content, self)
        if self._out_of_memory:
            self._request.fail_body(BodyFailure.NO_MEMORY)
        elif self._framing.part is Part.DISCARDED:
            content.feed_eof()
        elif self._framing.has_rest:
            self._parse_rest()

    async def serve(self) -> web.StreamResponse:
        """Answers the request that has begun; returns whether the connection is kept, in aiohttp's terms."""
        request = self._request
        assert request is not None
        answer: Answer | None = None
        try:
            answer = await self._answer(request) if self._malformed is None else self._refusal(request)
            await answer.send(request)
            self._host.request_log.add(request, answer.status, self._sent, "")
            if not answer.keep_alive and (request.body_pending or self._malformed is not None):
                await self._linger()
        except ConnectionError:
            self._log_cut(request, answer, CLIENT_GONE)
            _LOG.debug("The caller %s has disconnected", self.peername)
            self.force_close()
            return CLOSED
        except asyncio.CancelledError:
            self._log_cut(request, answer, ABORTED)
            raise
        finally:
            self._end_request(kept=answer is not None and answer.keep_alive)
        return KEPT if answer.keep_alive else CLOSED

    async def _answer(self, request: HttpRequest) -> Answer:
        try:
            return await self._host.handler(request)
        except Exception:  # noqa: BLE001 - the caller learns nothing of a defect
            _LOG.exception("A request failed", extra={"request_id": request.request_id})
            return refused(Refusal("internal"), request)

    def _end_request(self, *, kept: bool) -> None:
        self._request = None
        if self.reserved_bytes:
            self._host.buffers.release(self)
        if not kept:
            # The caller may still have to read the answer.
            self._framing.close()
            self.wait_for(WaitKind.READER)
            return
        kind = WaitKind.REQUEST
        if self._framing.keeps_input:
            kind = WaitKind.HEAD
            if not self.reserve_bytes(self._framing.kept_bytes):
                self._refuse_input()
        if self._framing.part is Part.PARSED:
            return
        if self.ended:
            self.close()
        else:
            self.wait_for(kind)

    def _log_cut(self, request: HttpRequest, answer: Answer | None, cut: str) -> None:
        """Logs a request whose connection ended before its answer was sent."""
        cut = ABORTED if self._aborted else cut
        if answer is None or not self._sent:
            self._host.request_log.add(request, 0, self._sent, cut)
        else:
            self._host.request_log.add(request, answer.status, self._sent, "" if answer.whole else cut)

    def handle_error(
        self,
        request: Any,  # noqa: ARG002 - aiohttp's signature, as are the following
        status: int = 500,  # noqa: ARG002
        exc: BaseException | None = None,  # noqa: ARG002
        message: str | None = None,  # noqa: ARG002
    ) -> web.StreamResponse:
        """Answers a head that the parser refused; aiohttp's own message would quote the head."""
        return MalformedAnswer(self.serve)

    def _refusal(self, request: HttpRequest) -> Answer:
        metrics.MALFORMED.add()
        # The reason quotes nothing of the request, whose headers may hold a credential.
        reason = self._malformed or "is not well-formed HTTP"
        _LOG.info("Malformed request from %s: %s", self.peername, reason, extra={"request_id": request.request_id})
        try:
            request.check_length()
            refusal = Refusal("invalid_request", details=[{"name": "request", "reason": reason}])
        except Refusal as too_large:
            refusal = too_large
        request.outcome = ("", "", refusal.code, "", 0.0, "")
        return refused(refusal, request)

    def reserve_bytes(self, size: int) -> bool:
        """Counts bytes for this connection until its request is served; returns whether they may be kept."""
        return self._host.buffers.reserve(self, size)

    def _refuse_input(self) -> None:
        """Drops the body under way: requests of other callers take the memory."""
        self._out_of_memory = self.closing = True
        self._framing.close()
        if self._request is not None:
            self._request.fail_body(BodyFailure.NO_MEMORY)

    def stop_parsing(self) -> None:
        """Drops further input: no further request is served."""
        self._framing.close()

    def stop_waiting(self) -> None:
        """Ends the wait for the caller; a caller whose body is awaited still gets an answer."""
        if self.wait_kind is WaitKind.BODY and self._request is not None:
            self._request.fail_body(BodyFailure.LATE)
        else:
            self.evict()

    def evict(self) -> None:
        """Ends the connection and cuts off an answer under way."""
        if self.busy or self.lost:
            self.abort()
        else:
            self.force_close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Waits for the first request; called by the transport."""
        super().connection_made(transport)
        self.closing = self._host.stopping
        self.wait_for(WaitKind.REQUEST)
        # Admitted only once aiohttp's task waits for a request: aiohttp does not expect an earlier end.
        asyncio.get_running_loop().call_soon(self._admit)

    def _admit(self) -> None:
        if not self.lost:
            self._host.limiter.admit(self)

    def write(self, data: bytes) -> None:
        """Queues bytes for sending.

        Raises:
            ConnectionResetError: the caller has disconnected.
        """
        if self.transport is None or self.transport.is_closing():
            raise ConnectionResetError("the caller has disconnected")
        self._sent += len(data)
        self.transport.write(data)

    async def drain(self) -> None:
        """Waits until the caller has read enough of the queued bytes.

        Raises:
            ConnectionResetError: the caller has disconnected, or was evicted because it reads too slowly.
        """
        if not self.writing_paused or self.transport is None or self._writer is None:
            return
        size = self.transport.get_write_buffer_size()
        if not self.reserve_bytes(size):
            raise ConnectionResetError("no memory is left for what the caller does not read")
        try:
            with self.waiting(WaitKind.READER):
                await self._writer.drain()
        finally:
            self._host.buffers.release(self, size)
        if self.lost:
            raise ConnectionResetError("the caller has disconnected")

    async def _linger(self) -> None:
        """Ends sending so that a caller that is still sending sees its answer.

        Closing at once would reset the connection, and the answer with it.
        """
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        self._lingering = asyncio.get_running_loop().create_future()
        # Bytes that have arrived already would be kept uncounted meanwhile.
        self._framing.close()
        self._host.buffers.release(self)
        try:
            transport.write_eof()
            transport.resume_reading()
            with self.waiting(WaitKind.READER):
                async with asyncio.timeout(DISCARD_SECONDS):
                    await self._lingering
        except (OSError, RuntimeError, NotImplementedError, TimeoutError):
            pass
        self.force_close()

    def _end_lingering(self) -> None:
        if self._lingering is not None and not self._lingering.done():
            self._lingering.set_result(None)

    def abort(self) -> None:
        """Resets the connection, so that the caller cannot take a partial answer for a whole one."""
        if self.transport is not None:
            self._aborted = self._aborted or not self.transport.is_closing()
            self.transport.abort()


def begin_request(
    message: RawRequestMessage,
    content: StreamReader,
    protocol: web.RequestHandler,
    writer: AbstractStreamWriter,
    task: "asyncio.Task[None]",
) -> web.BaseRequest:
    """Begins the next request of a connection; called by aiohttp."""
    cast("Connection", protocol).begin(message, content, writer)
    return web.BaseRequest(message, content, protocol, writer, task, asyncio.get_running_loop())


async def serve_request(request: web.BaseRequest) -> web.StreamResponse:
    """Answers the request that has begun; called by aiohttp."""
    return await cast("Connection", request.protocol).serve()
