"""One caller's connection to the API."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol, cast

from contract.connections.bounded_connection import BoundedConnection, WaitKind
from contract.connections.connection_limiter import ConnectionLimiter
from contract.refusals import Refusal
from edge import metrics
from edge.http.body import BodyFailure
from edge.http.buffer_limiter import BufferLimiter
from edge.http.message import RequestMessage
from edge.http.parser import BOUNDS, RequestParser
from edge.http.request import MAX_BODY_BYTES, HttpRequest
from edge.http.request_log import RequestLog
from edge.http.response import Answer, refused
from edge.http.write_batches import WriteBatch, WriteBatches
from telemetry.request_lines import ABORTED, CLIENT_GONE

DISCARD_BYTES: Final = 64 * 1_048_576
"""How much of what a refused caller still sends is read and discarded, so that it sees the answer."""

DISCARD_SECONDS: Final = 5.0

_LOG = logging.getLogger(__name__)


class Host(Protocol):
    """The server of a connection."""

    connections: "set[Connection]"
    """All that are open, or whose request is still being served."""

    limiter: "ConnectionLimiter[Connection]"
    buffers: "BufferLimiter[Connection]"

    write_batches: WriteBatches

    request_log: RequestLog

    stopping: bool
    """Whether each connection ends with the answer under way."""

    async def answer(self, request: HttpRequest) -> Answer:
        """Returns the answer to a well-formed request; never fails."""
        ...


class Connection(BoundedConnection, asyncio.Protocol):
    """Serves the requests of one caller, one after the other, in a task of its own."""

    def __init__(self, host: Host) -> None:
        self.held = 0
        self.peername: object = None
        self.on_lost: Callable[[], object] | None = None
        self.on_ended: Callable[[], object] | None = None
        self.ended = False
        self.task: asyncio.Task[None] | None = None
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._writes: WriteBatch | None = None
        self._parser = RequestParser(MAX_BODY_BYTES)
        self._request: HttpRequest | None = None
        self._message_arrived: asyncio.Future[None] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._lingering: asyncio.Future[None] | None = None
        self._writing_paused = False
        self._reading_paused = False
        self._discard_left = DISCARD_BYTES
        self._out_of_memory = False
        self._sent = 0
        self._aborted = False

    @property
    def closing(self) -> bool:
        """Returns whether the connection serves no further request."""
        return self._out_of_memory or self._host.stopping

    @property
    def busy(self) -> bool:
        """Returns whether a request of this caller has still to be answered."""
        return self._request is not None or bool(self._parser.messages)

    @property
    def lost(self) -> bool:
        """Returns whether nothing can be sent any more."""
        return self._transport is None or self._transport.is_closing()

    @property
    def broken(self) -> bool:
        """Returns whether nothing that follows can be parsed."""
        return self._parser.broken

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Waits for the first request."""
        self._transport = cast("asyncio.Transport", transport)
        self._writes = WriteBatch(self._transport, self._host.write_batches)
        self.peername = transport.get_extra_info("peername")
        self.wait_for(WaitKind.REQUEST)
        self._host.connections.add(self)
        if self._host.limiter.admit(self):
            self.task = self._loop.create_task(self._serve_all())
            self.task.add_done_callback(self._leave_host)

    def connection_lost(self, exc: BaseException | None) -> None:  # noqa: ARG002 - the reason makes no difference
        """Ends whatever waits for this caller."""
        self._transport = self._writes = None
        self._leave_host()
        self._host.limiter.leave(self)
        self._host.buffers.release(self)
        self._parser.close()
        self._parser.messages.clear()
        if self._request is not None:
            self._request.fail_body(BodyFailure.INCOMPLETE)
            if self.on_lost is not None:
                self.on_lost()
        for waiter in (self._message_arrived, self._writable, self._lingering):
            _wake(waiter)

    def eof_received(self) -> bool:
        """Ends the connection of a caller that sends no more, once its whole requests are answered."""
        self._flush()
        self.ended = True
        body = self._parser.last_body
        if not self.busy or (body is not None and not body.complete):
            # The transport closes itself.
            return False
        if self.on_ended is not None:
            self.on_ended()
        return True

    def _leave_host(self, _: object = None) -> None:
        """Leaves the server once the connection has ended and its request, if any, has been served."""
        if self._transport is None and (self.task is None or self.task.done()):
            self._host.connections.discard(self)

    def data_received(self, data: bytes) -> None:
        """Parses bytes from the socket; those of a caller that has its answer are discarded."""
        if self._lingering is not None:
            self._discard_left -= len(data)
            if self._discard_left <= 0:
                _wake(self._lingering)
            return
        parser = self._parser
        if parser.broken or self._out_of_memory:
            return
        parser.feed(data)
        if parser.messages:
            if self._request is None:
                self.end_wait()
            _wake(self._message_arrived)
        elif parser.in_head:
            if self.wait_kind is WaitKind.REQUEST:
                self.wait_for(WaitKind.HEAD)
            # The parser keeps a copy of an unfinished head.
            if not self.hold(len(data)):
                self.close()
        if not self.hold(len(data)):
            self._refuse_input()
        if parser.has_rest and self._transport is not None:
            self._reading_paused = True
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        """Notes that the caller does not read; the transport calls it."""
        self._writing_paused = True

    def resume_writing(self) -> None:
        """Notes that the caller has read enough; the transport calls it."""
        self._writing_paused = False
        _wake(self._writable)

    async def _serve_all(self) -> None:
        try:
            while (message := await self._next_message()) is not None:
                if not await self._serve(message):
                    break
                if self._parser.messages:
                    # A caller that pipelines waits as long for each answer as others do for one.
                    await asyncio.sleep(0)
        except ConnectionError:
            _LOG.debug("The caller %s has disconnected", self.peername)
        finally:
            self.wait_for(WaitKind.READER)
            self.close()

    async def _next_message(self) -> RequestMessage | None:
        """Returns the next request; None when the connection is closed."""
        parser = self._parser
        if parser.has_rest and not parser.messages:
            self._feed_rest()
        if not parser.messages:
            if self.lost or self.ended:
                return None
            self.wait_for(WaitKind.HEAD if parser.in_head else WaitKind.REQUEST)
            self._message_arrived = self._loop.create_future()
            await self._message_arrived
            self._message_arrived = None
            if not parser.messages:
                return None
        message = parser.messages.popleft()
        if parser.has_rest and not parser.messages:
            self._feed_rest()
        return message

    def _feed_rest(self) -> None:
        self._parser.feed_rest()
        if self._reading_paused and not self._parser.has_rest and self._transport is not None:
            self._reading_paused = False
            self._transport.resume_reading()

    async def _serve(self, message: RequestMessage) -> bool:
        """Answers one request; returns whether the connection is kept."""
        request = self._request = HttpRequest(message, self)
        self._sent = 0
        answer: Answer | None = None
        try:
            if message.malformed:
                answer = self._malformed(request, message.malformed)
            else:
                answer = await self._host.answer(request)
            await answer.send(request)
            self._host.request_log.add(request, answer.status, self._sent, "")
            return answer.keep_alive and (not request.body_pending or await request.skip_body(DISCARD_SECONDS))
        except (ConnectionError, asyncio.CancelledError) as error:
            self._log_cut(request, answer, error)
            raise
        finally:
            self._request = None
            self._host.buffers.release(self)

    def _log_cut(self, request: HttpRequest, answer: Answer | None, error: BaseException) -> None:
        """Logs a request whose connection ended before its answer was sent."""
        cut = ABORTED if self._aborted or isinstance(error, asyncio.CancelledError) else CLIENT_GONE
        if answer is None or not self._sent:
            self._host.request_log.add(request, 0, self._sent, cut)
        else:
            self._host.request_log.add(request, answer.status, self._sent, "" if answer.whole else cut)

    def _malformed(self, request: HttpRequest, reason: str) -> Answer:
        metrics.MALFORMED.add()
        # The reason quotes nothing of the request: a credential may be among its headers.
        extra = {"request_id": request.request_id}
        _LOG.info("Malformed request from %s: %s", self.peername, reason, extra=extra)
        try:
            request.check_length()
            problem = {"name": "request", "reason": reason if reason in BOUNDS else "is not well-formed HTTP"}
            refusal = Refusal("invalid_request", details=[problem])
        except Refusal as too_large:
            refusal = too_large
        request.outcome = ("", "", refusal.code, "", 0.0, "")
        return refused(refusal, request)

    def hold(self, size: int) -> bool:
        """Counts bytes for this connection until its request is served; returns whether they may be kept."""
        return self._host.buffers.hold(self, size)

    def _refuse_input(self) -> None:
        """Drops the body under way: requests of other callers take the memory."""
        self._out_of_memory = True
        if self._parser.last_body is not None:
            self._parser.last_body.fail(BodyFailure.NO_MEMORY)
        self._parser.close()

    def stop_waiting(self) -> None:
        """Ends the wait for the caller; where its body is awaited, it still gets an answer."""
        if self.wait_kind is WaitKind.BODY and self._request is not None:
            self._request.fail_body(BodyFailure.LATE)
        else:
            self.evict()

    def evict(self) -> None:
        """Ends the connection; an answer that is not sent yet is cut off."""
        if self.busy or self.lost:
            self.abort()
        else:
            self.close()

    def write(self, data: bytes) -> None:
        """Queues bytes for sending.

        Raises:
            ConnectionResetError: the caller has disconnected.
        """
        if self._writes is None or self.lost:
            raise ConnectionResetError("the caller has disconnected")
        self._sent += len(data)
        self._writes.write(data)

    def _flush(self) -> None:
        if self._writes is not None:
            self._writes.flush()

    async def drain(self) -> None:
        """Waits until the caller has read enough of what is queued.

        Raises:
            ConnectionResetError: the caller has disconnected, or was evicted because it reads too slowly.
        """
        if not self._writing_paused or self._transport is None:
            return
        size = self._transport.get_write_buffer_size()
        if not self.hold(size):
            raise ConnectionResetError("no memory is left for what the caller does not read")
        self._writable = self._loop.create_future()
        try:
            with self.waiting(WaitKind.READER):
                await self._writable
        finally:
            self._writable = None
            self._host.buffers.release(self, size)
        if self.lost:
            raise ConnectionResetError("the caller has disconnected")

    async def linger(self) -> None:
        """Closes the connection in such a way that a caller that is still sending sees its answer.

        Closing at once would reset the connection, and the answer with it.
        """
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self._lingering = self._loop.create_future()
        # What has arrived already would be kept for as long, and no longer be counted.
        self._parser.close()
        self._host.buffers.release(self)
        try:
            self._flush()
            transport.write_eof()
            transport.resume_reading()
            with self.waiting(WaitKind.READER):
                async with asyncio.timeout(DISCARD_SECONDS):
                    await self._lingering
        except (OSError, RuntimeError, NotImplementedError, TimeoutError):
            pass
        self.close()

    def close(self) -> None:
        """Ends the connection once everything written is sent."""
        if self._transport is not None:
            self._flush()
            self._transport.close()
        _wake(self._message_arrived)

    def abort(self) -> None:
        """Resets the connection, so that the caller cannot take what it received for complete."""
        if self._transport is not None:
            self._aborted = self._aborted or not self._transport.is_closing()
            self._transport.abort()


def _wake(waiter: "asyncio.Future[None] | None") -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
