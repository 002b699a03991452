"""The connections of the console: a bounded number, none that waits for ever, and no words of a library on them."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

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
        self._settings = settings
        self._waiting: dict[RequestHandler, tuple[int, float]] = {}

    def __call__(self) -> RequestHandler:
        return _Connection(self, loop=self._loop, **self._kwargs)

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        if len(self._connections) > self._settings.connections:
            _LOG.warning("a browser was sent away: %d are connected", self._settings.connections)
            transport.abort()

    async def watch(self) -> None:
        """Close whoever sends no request for too long, or only the beginning of one."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                self._close_idle(self._loop.time())
            except Exception:  # noqa: BLE001 - one look that fails does not end the watch
                _LOG.exception("idle connections could not be looked at")

    def _close_idle(self, now: float) -> None:
        waiting = {}
        for connection in self.connections:
            if connection._request_in_progress:  # noqa: SLF001 - aiohttp itself waits for ever for the end of headers
                continue
            count, since = self._waiting.get(connection, (-1, now))
            if count != connection._request_count:  # noqa: SLF001
                count, since = connection._request_count, now  # noqa: SLF001
            if now - since > self._settings.idle_seconds:
                connection.force_close()
            waiting[connection] = (count, since)
        self._waiting = waiting


class _Connection(RequestHandler):
    def handle_error(
        self,
        request: Any,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - aiohttp names it
    ) -> web.StreamResponse:
        """Answer what never became a request of the application; aiohttp's own words would quote it."""
        _LOG.info("a malformed request, or a defect: %s", type(exc).__name__)
        if request.writer.output_size > 0:
            raise ConnectionError("a part of the answer was sent already")
        server = self._manager
        assert isinstance(server, _Server)
        response = web.Response(status=status, text=f"This cannot be answered ({status}).\n", headers=server.headers)
        response.headers["Cache-Control"] = "no-store"
        response.force_close()
        return response
