"""aiohttp server of the console, with connections bounded in total and for each address."""

import asyncio
import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar, cast

from aiohttp import web

from console.settings import ConsoleSettings
from contract.addresses import network_of
from contract.connections import BoundedConnection, ConnectionLimiter, Evictable, Timeouts, WaitKind, watch_connections

_MAX_LINE_BYTES: Final = 16_384
_LIMITS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "access_log": None,
        "auto_decompress": False,
        "max_line_size": _MAX_LINE_BYTES,
        "max_field_size": _MAX_LINE_BYTES,
        "max_headers": 200,
        # The rest of a refused form is read and discarded for this long, so that its sender sees the answer.
        "lingering_time": 2.0,
    }
)

_LOG = logging.getLogger(__name__)

C = TypeVar("C", bound=Evictable)


class ConsoleServer:
    """Serves an application until it is stopped."""

    def __init__(self, app: web.Application, settings: ConsoleSettings, headers: Mapping[str, str]) -> None:
        self.port = settings.port
        self._settings = settings
        self._headers = headers
        self._application = web.AppRunner(app)
        self._runner: web.ServerRunner | None = None
        self._watch: asyncio.Task[None] | None = None

    @property
    def connections(self) -> "list[ConsoleConnection]":
        """All open connections."""
        server = self._runner.server if self._runner is not None else None
        return cast("list[ConsoleConnection]", server.connections) if server is not None else []

    async def start(self) -> None:
        """Starts to listen.

        Raises:
            OSError: the address cannot be bound.
        """
        settings = self._settings
        await self._application.setup()
        assert self._application.server is not None
        server = _Server(self._application.server, settings, self._headers)
        self._runner = web.ServerRunner(server, shutdown_timeout=settings.drain_seconds)
        await self._runner.setup()
        timeouts = Timeouts(settings.idle_seconds, settings.head_seconds, settings.stall_seconds)
        self._watch = asyncio.create_task(
            watch_connections(lambda: self.connections, timeouts, lambda: server.limiter.evicted)
        )
        await web.TCPSite(self._runner, settings.host, settings.port).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Stops listening, lets requests under way end, and closes."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        if self._runner is not None:
            await self._runner.cleanup()
        await self._application.cleanup()


class _Server(web.Server):
    def __init__(self, app: web.Server, settings: ConsoleSettings, headers: Mapping[str, str]) -> None:
        super().__init__(self._serve, request_factory=app.request_factory)
        self.headers = headers
        self.limiter = AddressLimiter[ConsoleConnection](
            settings.connections,
            # Behind a proxy all connections come from one address, the proxy's.
            settings.address_connections if settings.client_address == "peer" else settings.connections,
        )
        self.limits = {**_LIMITS, "keepalive_timeout": settings.idle_seconds}
        self._handler = app.request_handler

    def __call__(self) -> web.RequestHandler:
        return ConsoleConnection(self)

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = cast("ConsoleConnection", request.protocol)
        connection.end_wait()
        try:
            return await self._handler(request)
        finally:
            connection.wait_for(WaitKind.REQUEST)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        peer = transport.get_extra_info("peername")
        self.limiter.admit(cast("ConsoleConnection", handler), peer[0] if isinstance(peer, tuple) else "")

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self.limiter.leave(cast("ConsoleConnection", handler))


class ConsoleConnection(BoundedConnection, web.RequestHandler):
    """One browser's connection."""

    def __init__(self, server: _Server) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), **server.limits)
        self._headers = server.headers
        self._wait_kind_before_reader = WaitKind.REQUEST
        self.wait_for(WaitKind.REQUEST)

    def evict(self) -> None:
        """Ends the connection."""
        if self.transport is not None:
            self.transport.abort()
        self.force_close()

    async def start(self) -> None:
        """Serves requests one after the other; called by aiohttp, even for a connection evicted meanwhile."""
        if self.transport is not None:
            await super().start()

    def data_received(self, data: bytes) -> None:
        """Takes bytes from the socket; called by aiohttp."""
        super().data_received(data)
        if self.wait_kind is WaitKind.REQUEST:
            self.wait_for(WaitKind.HEAD)

    def pause_writing(self) -> None:
        """Notes that the browser does not read; called by the transport."""
        super().pause_writing()
        self._wait_kind_before_reader = self.wait_kind
        self.wait_for(WaitKind.READER)

    def resume_writing(self) -> None:
        """Notes that the browser reads again; called by the transport."""
        super().resume_writing()
        if self._wait_kind_before_reader is WaitKind.NOTHING:
            self.end_wait()
        else:
            self.wait_for(self._wait_kind_before_reader)

    def handle_error(
        self,
        request: Any,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - aiohttp names it
    ) -> web.StreamResponse:
        """Answers a malformed request; aiohttp's own message would quote it."""
        _LOG.info("Malformed request, or a defect: %s", type(exc).__name__)
        if self.transport is None:
            raise ConnectionError("the browser has disconnected")
        if request.writer.output_size > 0:
            raise ConnectionError("a part of the answer was sent already")
        text = f"This cannot be answered ({status}).\n"
        response = web.Response(status=status, text=text, headers=self._headers)
        response.headers["Cache-Control"] = "no-store"
        response.force_close()
        return response


class AddressLimiter(Generic[C]):
    """Limiter to `limit` connections in total, and `per_address` from one IPv4 address or IPv6 /64."""

    def __init__(self, limit: int, per_address: int) -> None:
        self._all = ConnectionLimiter[C](limit)
        self._per_address = per_address
        self._of_network: dict[str, ConnectionLimiter[C]] = {}
        self._networks: dict[C, str] = {}
        self._evicted_by_address = 0

    @property
    def evicted(self) -> int:
        """Number of connections that were evicted or refused so far."""
        return self._all.evicted + self._evicted_by_address

    def admit(self, newcomer: C, address: str) -> None:
        """Admits a connection and evicts another at a limit; an address at its own limit evicts only its own."""
        network = network_of(address)
        limiter = self._of_network.setdefault(network, ConnectionLimiter[C](self._per_address))
        before = limiter.evicted
        self._networks[newcomer] = network
        admitted = limiter.admit(newcomer)
        self._evicted_by_address += limiter.evicted - before
        if not (admitted and self._all.admit(newcomer)):
            self.leave(newcomer)

    def leave(self, connection: C) -> None:
        """Forgets a connection that has ended."""
        self._all.leave(connection)
        network = self._networks.pop(connection, None)
        limiter = self._of_network.get(network or "")
        if limiter is not None:
            limiter.leave(connection)
            if not limiter.connections:
                del self._of_network[network or ""]
