"""HTTP server of the API: aiohttp's server with bounds on connections, bytes and waits."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import monotonic
from typing import Final, cast

from aiohttp import web

from contract.connections import BufferLimiter, ConnectionLimiter, Timeouts, watch_connections
from edge import metrics
from edge.http.connection import Connection, begin_request, serve_request
from edge.http.listener import Listener
from edge.http.request import HttpRequest
from edge.http.request_log import RefusedKey, RequestLog
from edge.http.response import Answer
from telemetry import Family

_LAST_REQUEST_SECONDS: Final = 1.0
_POLL_SECONDS: Final = 0.02
_CANCEL_SECONDS: Final = 0.5

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Limits of one server: connections, bytes of requests and answers under way, and seconds."""

    connections: int
    buffer_bytes: int
    timeouts: Timeouts


class HttpServer(web.Server):
    """Serves HTTP/1.1 from the moment it is made, in the running loop."""

    def __init__(
        self,
        handler: Callable[[HttpRequest], Awaitable[Answer]],
        limits: HttpLimits,
        refused_key: RefusedKey | None = None,
    ) -> None:
        """`refused_key` names, for the log, the key of a request that was answered 401."""
        super().__init__(serve_request, request_factory=begin_request)
        self.timeouts = limits.timeouts
        self.limiter = ConnectionLimiter[Connection](limits.connections)
        self.buffers = BufferLimiter(limits.buffer_bytes, self.limiter.connections, monotonic)
        self.request_log = RequestLog(refused_key)
        self.stopping = False
        """True once each connection ends with the answer under way."""
        self.handler = handler
        self._watch = asyncio.get_running_loop().create_task(
            watch_connections(lambda: self.callers, limits.timeouts, self._evicted)
        )

    @property
    def callers(self) -> list[Connection]:
        """Returns all connections that are open, or whose request is still being served."""
        return cast("list[Connection]", self.connections)

    def __call__(self) -> Connection:
        """Returns the protocol of a new connection."""
        return Connection(self, self)

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        """Forgets a connection; called by aiohttp."""
        super().connection_lost(handler, exc)
        self.limiter.leave(cast("Connection", handler))

    def measured(self) -> list[Family]:
        """Returns the numbers of connections and kept bytes; callable from any thread."""
        in_flight = sum(connection.busy for connection in self.callers)
        return [
            metrics.IN_FLIGHT.with_value(in_flight),
            metrics.CONNECTIONS.with_value(len(self.limiter.connections)),
            metrics.CONNECTIONS_LIMIT.with_value(self.limiter.limit),
            metrics.HELD.with_value(self.buffers.reserved_bytes),
            metrics.HELD_LIMIT.with_value(self.buffers.limit),
            metrics.SENT_AWAY.with_value(self._evicted()),
        ]

    def _evicted(self) -> int:
        return self.limiter.evicted + self.buffers.evicted

    async def stop(self, listener: Listener, drain_seconds: float) -> None:
        """Stops listening and answers open requests; those that take longer than `drain_seconds` are cut off."""
        self.stopping = True
        for connection in self.callers:
            connection.closing = True
        await listener.close()
        try:
            async with asyncio.timeout(drain_seconds):
                await self._drain()
        except TimeoutError:
            _LOG.warning("Requests still under way after %s s are cut off", drain_seconds)
        self._watch.cancel()
        await asyncio.gather(self._watch, return_exceptions=True)
        await self._end_all()

    async def _drain(self) -> None:
        """Waits for every request under way, and a moment for further requests of connected callers.

        A request on a connection that is being closed would be lost; its answer tells the caller to reconnect.
        """
        until = self._loop_time() + _LAST_REQUEST_SECONDS
        under_way = True
        while under_way:
            under_way = False
            for connection in self.callers:
                if connection.busy or (not connection.lost and self._loop_time() < until):
                    under_way = True
                else:
                    connection.force_close()
            await asyncio.sleep(_POLL_SECONDS)

    async def _end_all(self) -> None:
        """Ends all connections and the tasks that serve them."""
        for connection in self.callers:
            connection.evict()
        await self.shutdown(_CANCEL_SECONDS)

    @staticmethod
    def _loop_time() -> float:
        return asyncio.get_running_loop().time()
