"""Live updates: server-sent events, as many at once as there is room for, and no longer than the session."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Final

from aiohttp import web

from edge.console.settings import ConsoleSettings
from edge.errors import Refusal

_LOG = logging.getLogger(__name__)
_LOOK_SECONDS: Final = 1.0
_BEGIN: Final = b"retry: 3000\n\n"
_HEARTBEAT: Final = b": \n\n"
_TOO_MANY: Final = "Too many pages with live updates are open. Close some, and reload this one."

Events = AsyncIterator[tuple[str, str]]


class EventStreams:
    """The live updates under way."""

    def __init__(self, settings: ConsoleSettings) -> None:
        self._settings = settings
        self._open: Counter[str] = Counter()
        self._stopping = asyncio.Event()

    @property
    def count(self) -> int:
        """How many there are."""
        return self._open.total()

    def stop(self) -> None:
        """End them all; browsers come back by themselves."""
        self._stopping.set()

    async def send(
        self, request: web.Request, session: str, events: Events, lasts: Callable[[], Awaitable[bool]]
    ) -> web.StreamResponse:
        """Send events until they end, the browser leaves, the console stops or the session `lasts` no more.

        Raises:
            HTTPTooManyRequests: there are as many as there may be.
        """
        if self.count >= self._settings.streams or self._open[session] >= self._settings.session_streams:
            raise web.HTTPTooManyRequests(text=_TOO_MANY)
        self._open[session] += 1
        try:
            async with aclosing(_Pulled(events)) as pulled:
                response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
                await response.prepare(request)
                try:
                    await self._write(response, _BEGIN)
                    await self._send(request, response, pulled, lasts)
                except (ConnectionError, TimeoutError):
                    _LOG.debug("who followed live updates has gone")
                except Exception:  # noqa: BLE001 - the answer has begun, and no page can follow it
                    _LOG.exception("live updates of %s broke", request.path)
                return response
        finally:
            self._open[session] -= 1
            if not self._open[session]:
                del self._open[session]

    async def _send(
        self,
        request: web.Request,
        response: web.StreamResponse,
        pulled: "_Pulled",
        lasts: Callable[[], Awaitable[bool]],
    ) -> None:
        loop = asyncio.get_running_loop()
        look_at = loop.time() + self._settings.stream_check_seconds
        while not self._stopping.is_set() and request.transport is not None and not request.transport.is_closing():
            try:
                event = await pulled.next(_LOOK_SECONDS)
            except StopAsyncIteration:
                await self._write(response, _line("end", ""))
                return
            except Refusal:
                # The browser asks again, and is told with a page if it still cannot be had.
                return
            if event is not None:
                await self._write(response, _line(*event))
            if loop.time() >= look_at:
                if not await lasts():
                    await self._write(response, _line("reload", ""))
                    return
                await self._write(response, _HEARTBEAT)
                look_at = loop.time() + self._settings.stream_check_seconds

    async def _write(self, response: web.StreamResponse, data: bytes) -> None:
        async with asyncio.timeout(self._settings.stall_seconds):
            await response.write(data)


class _Pulled:
    """Events, waited for a while at a time without losing any."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._next: asyncio.Task[tuple[str, str]] | None = None

    async def next(self, seconds: float) -> tuple[str, str] | None:
        """Return the next event; None where there is none for so long."""
        if self._next is None:
            self._next = asyncio.create_task(self._pull())
        done, _ = await asyncio.wait({self._next}, timeout=seconds)
        if not done:
            return None
        pulled, self._next = self._next, None
        return pulled.result()

    async def _pull(self) -> tuple[str, str]:
        return await anext(self._events)

    async def aclose(self) -> None:
        """Let go of the events."""
        if self._next is not None:
            self._next.cancel()
            await asyncio.gather(self._next, return_exceptions=True)
        close = getattr(self._events, "aclose", None)
        if close is not None:
            await close()


def _line(event: str, data: str) -> bytes:
    assert "\n" not in event
    lines = "".join(f"data: {line}\n" for line in data.splitlines() or ("",))
    return f"event: {event}\n{lines}\n".encode()
