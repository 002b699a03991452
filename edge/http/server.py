"""The connections of one listener, and what is done to all of them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, cast

from aiohttp import web

from edge import metrics
from edge.errors import Refusal
from edge.http.api_connections import Room
from edge.http.connection import Connection
from edge.http.listener import Listener
from edge.http.request import HttpRequest
from edge.http.response import Answer, refused
from telemetry import Family

_LAST_CALL_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.02
_BREAK_OFF_SECONDS: Final = 0.5

_LOG = logging.getLogger(__name__)


class HttpServer(web.Server):
    """Makes a `Connection` for every caller."""

    def __init__(
        self,
        handler: Callable[[HttpRequest], Awaitable[Answer]],
        room: Room,
        *,
        idle_seconds: float,
        stall_seconds: float,
    ) -> None:
        super().__init__(handler, keepalive_timeout=idle_seconds, access_log=None)  # type: ignore[arg-type]
        self.room = room
        self.stall_seconds = stall_seconds
        self.stopping = False
        """Whether each connection ends with the answer under way."""
        self._handler = handler

    def __call__(self) -> Connection:
        """Return the protocol of a new connection."""
        return Connection(self, loop=self._loop, **self._kwargs)

    def connection_made(self, handler: Any, transport: asyncio.Transport) -> None:
        """Take a caller in; aiohttp calls it."""
        super().connection_made(handler, transport)
        self.room.admit(handler)

    def connection_lost(self, handler: Any, exc: BaseException | None = None) -> None:
        """Let a caller go; aiohttp calls it."""
        super().connection_lost(handler, exc)
        self.room.leave(handler)

    @property
    def _callers(self) -> Iterable[Connection]:
        return cast("Iterable[Connection]", self.connections)

    async def answer(self, request: HttpRequest) -> Answer:
        """Return the handler's answer; a defect of the handler is `internal`."""
        try:
            return await self._handler(request)
        except Exception:  # noqa: BLE001 - whatever it is, the caller learns nothing of it
            _LOG.exception("request %s failed", request.request_id)
            return refused(Refusal("internal"), request)

    def measured(self) -> list[Family]:
        """Return how many callers there are, and what they keep here; from any thread."""
        in_flight = sum(connection.busy for connection in tuple(self._callers))
        return [metrics.IN_FLIGHT.with_value(in_flight), *self.room.measured()]

    def check_heads(self, head_seconds: float) -> None:
        """Close every connection whose caller takes too long over its headers."""
        now = self._loop.time()
        for connection in self._callers:
            connection.check_head(now, head_seconds)

    async def stop(self, listener: Listener, drain_seconds: float) -> None:
        """Stop listening, and answer what was asked; calls that take longer than `drain_seconds` are broken off."""
        self.stopping = True
        await listener.close()
        try:
            async with asyncio.timeout(drain_seconds):
                await self._drain()
        except TimeoutError:
            _LOG.warning("calls still under way after %s s are broken off", drain_seconds)
        await self.shutdown(_BREAK_OFF_SECONDS)

    async def _drain(self) -> None:
        """Wait for every call under way, and a moment for those of callers who are connected.

        What they ask on a connection that is being closed would be lost; the answer to it tells them to leave.
        """
        heard_until = self._loop.time() + _LAST_CALL_SECONDS
        under_way = True
        while under_way:
            under_way = False
            for connection in self._callers:
                if connection.busy or (not connection.lost and self._loop.time() < heard_until):
                    under_way = True
                else:
                    connection.close()
            await asyncio.sleep(_LOOK_SECONDS)
