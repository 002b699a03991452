"""The connections of the console: a bounded number, none that waits for ever, and no words of a library on them."""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, cast

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from edge.console.address_limiter import AddressLimiter
from edge.console.settings import ConsoleSettings

_MAX_LINE_BYTES: Final = 16_384
_MAX_HEADERS: Final = 200
_LOOK_SECONDS: Final = 1.0
# How long the rest of a refused form is read over, so that its sender sees the answer.
_LINGERING_SECONDS: Final = 2.0

_LOG = logging.getLogger(__name__)


class ConsoleRunner(web.AppRunner):
    """Runs the application behind connections of our own."""

    def __init__(self, app: web.Application, settings: ConsoleSettings, headers: Mapping[str, str]) -> None:
        super().__init__(app, shutdown_timeout=settings.drain_seconds)
        self._settings = settings
        self._headers = headers
        self._watch: asyncio.Task[None] | None = None

    @property
    def connected(self) -> int:
        """How many connections there are."""
        return len(self.server.connections) if self.server is not None else 0

    async def _make_server(self) -> web.Server:
        plain = await super()._make_server()
        server = _Server(plain, self._settings, self._headers)
        self._watch = asyncio.create_task(server.watch())
        return server

    async def cleanup(self) -> None:
        """Stop listening, let requests under way end, and close."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        await super().cleanup()


class _Server(web.Server):
    def __init__(self, plain: web.Server, settings: ConsoleSettings, headers: Mapping[str, str]) -> None:
        super().__init__(
            plain.request_handler,
            request_factory=plain.request_factory,
            access_log=None,
            keepalive_timeout=settings.idle_seconds,
            max_line_size=_MAX_LINE_BYTES,
            max_field_size=_MAX_LINE_BYTES,
            max_headers=_MAX_HEADERS,
            auto_decompress=False,
            lingering_time=_LINGERING_SECONDS,
        )
        self.headers = headers
        self.limiter = AddressLimiter[ConsoleConnection](
            settings.connections,
            # Behind a proxy all connections come from one address, the proxy's.
            settings.address_connections if settings.client_address == "peer" else settings.connections,
        )
        self._settings = settings
        self._evicted_logged = 0

    def __call__(self) -> RequestHandler:
        return ConsoleConnection(self, loop=self._loop, **self._kwargs)

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        peer = transport.get_extra_info("peername")
        self.limiter.admit(cast("ConsoleConnection", handler), peer[0] if isinstance(peer, tuple) else "")

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self.limiter.leave(cast("ConsoleConnection", handler))

    async def watch(self) -> None:
        """Close whoever sends no request for too long, only the beginning of one, or takes nothing of an answer."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                now = self._loop.time()
                for connection in self.connections:
                    cast("ConsoleConnection", connection).close_if_slow(now, self._settings)
            except Exception:  # noqa: BLE001 - one look that fails does not end the watch
                _LOG.exception("idle connections could not be looked at")
            if self.limiter.evicted > 2 * self._evicted_logged:
                self._evicted_logged = self.limiter.evicted
                _LOG.warning("%d browsers that kept the console waiting were disconnected so far", self.limiter.evicted)


class ConsoleConnection(RequestHandler):
    """One browser's connection; it keeps the console waiting while it owes headers, a form or room for an answer."""

    __slots__ = ("_head_since", "_paused_since", "_waiting_since")

    def __init__(self, manager: web.Server, loop: asyncio.AbstractEventLoop, **limits: Any) -> None:
        super().__init__(manager, loop=loop, **limits)
        self._waiting_since = loop.time()
        self._head_since = 0.0
        self._paused_since = 0.0

    @property
    def waiting_since(self) -> float:
        """Since when the browser keeps the console waiting, by the loop's clock; 0 while it does not."""
        if self._paused_since:
            return self._paused_since
        return 0.0 if self._messages and not self._request_in_progress else self._waiting_since

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count what is awaited inside, as the rest of a form, as keeping the console waiting."""
        self._waiting_since = self._loop.time()
        try:
            yield
        finally:
            self._waiting_since = 0.0

    def evict(self) -> None:
        """End the connection."""
        if self.transport is not None:
            self.transport.abort()
        self.force_close()

    def close_if_slow(self, now: float, settings: ConsoleSettings) -> None:
        """End the connection where headers, the next request or room for an answer are overdue."""
        if self._paused_since:
            overdue = now - self._paused_since > settings.stall_seconds
        elif self._request_in_progress:
            # Forms and live updates have bounds of their own.
            overdue = False
        elif self._head_since:
            overdue = now - self._head_since > settings.head_seconds
        else:
            overdue = now - self._waiting_since > settings.idle_seconds
        if overdue:
            self.evict()

    async def start(self) -> None:
        """Serve requests one after the other; aiohttp calls it, also for a connection that was refused meanwhile."""
        if self._manager is not None:
            await super().start()

    def data_received(self, data: bytes) -> None:
        """Take bytes from the socket; aiohttp calls it."""
        begun = self._request_count
        super().data_received(data)
        if self._request_count != begun:
            self._head_since = 0.0
        elif not self._request_in_progress and not self._messages and not self._head_since:
            self._head_since = self._loop.time()

    def pause_writing(self) -> None:
        """Note that the browser takes nothing for now; the transport calls it."""
        super().pause_writing()
        self._paused_since = self._loop.time()

    def resume_writing(self) -> None:
        """Note that the browser takes its answer again; the transport calls it."""
        super().resume_writing()
        self._paused_since = 0.0

    async def _handle_request(self, *arguments: Any) -> tuple[web.StreamResponse, bool]:
        self._waiting_since = 0.0
        try:
            return await super()._handle_request(*arguments)
        finally:
            self._waiting_since = self._loop.time()

    def handle_error(
        self,
        request: Any,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - aiohttp names it
    ) -> web.StreamResponse:
        """Answer what never became a request of the application; aiohttp's own words would quote it."""
        _LOG.info("a malformed request, or a defect: %s", type(exc).__name__)
        if not isinstance(self._manager, _Server):
            raise ConnectionError("the browser has gone")
        if request.writer.output_size > 0:
            raise ConnectionError("a part of the answer was sent already")
        text = f"This cannot be answered ({status}).\n"
        response = web.Response(status=status, text=text, headers=self._manager.headers)
        response.headers["Cache-Control"] = "no-store"
        response.force_close()
        return response
