"""Live updates: server-sent events, bounded in number and ended with the session."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Final

from aiohttp import web

from console.settings import ConsoleSettings
from contract.refusals import Refusal

_LOG = logging.getLogger(__name__)
_POLL_SECONDS: Final = 1.0
_REFRESH: Final = "refresh"
_REFRESH_SECONDS: Final = 1.0
"""The least time between two refreshes of one page, each of which renders the whole page."""
_FIRST_LINES: Final = b"retry: 3000\n\n"
_HEARTBEAT: Final = b": \n\n"
_TOO_MANY: Final = "Too many pages with live updates are open. Close some, and reload this one."

Events = AsyncIterator[tuple[str, str]]


class EventStreams:
    """Sender of live updates; knows the open streams."""

    def __init__(self, settings: ConsoleSettings) -> None:
        self._settings = settings
        self._open: Counter[str] = Counter()
        self._stopping = asyncio.Event()

    @property
    def count(self) -> int:
        """Number of open streams."""
        return self._open.total()

    def stop(self) -> None:
        """Ends all streams; browsers reconnect by themselves."""
        self._stopping.set()

    async def send(
        self, request: web.Request, session: str, events: Events, session_lasts: Callable[[], Awaitable[bool]]
    ) -> web.StreamResponse:
        """Sends events until they end, the browser disconnects, the console stops or `session_lasts` returns False.

        Of refreshes that follow each other within a second, the last is sent once the second is over.

        Raises:
            HTTPTooManyRequests: the most streams are open.
        """
        if self.count >= self._settings.streams or self._open[session] >= self._settings.session_streams:
            raise web.HTTPTooManyRequests(text=_TOO_MANY)
        self._open[session] += 1
        try:
            async with aclosing(_PendingEvents(events)) as pending:
                response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
                await response.prepare(request)
                if request.method == "HEAD":
                    return response
                try:
                    await self._write(response, _FIRST_LINES)
                    await self._send(request, response, pending, session_lasts)
                except (ConnectionError, TimeoutError):
                    _LOG.debug("A browser closed its live updates")
                except Exception:  # noqa: BLE001 - the response has begun: no error page can follow
                    _LOG.exception("Live updates of %s failed", request.path)
                return response
        finally:
            self._open[session] -= 1
            if not self._open[session]:
                del self._open[session]

    async def _send(
        self,
        request: web.Request,
        response: web.StreamResponse,
        pending: "_PendingEvents",
        session_lasts: Callable[[], Awaitable[bool]],
    ) -> None:
        loop = asyncio.get_running_loop()
        check_at = loop.time() + self._settings.stream_check_seconds
        refresh_at = loop.time()
        waiting_event: tuple[str, str] | None = None
        while not self._stopping.is_set() and request.transport is not None and not request.transport.is_closing():
            wait = _POLL_SECONDS if waiting_event is None else max(0.0, refresh_at - loop.time())
            try:
                event = await pending.next(wait)
            except StopAsyncIteration:
                if waiting_event is not None:
                    await self._write(response, _line(*waiting_event))
                await self._write(response, _line("end", ""))
                return
            except Refusal:
                # The browser reconnects, and gets an error page if the service still refuses.
                return
            if event is not None and event[0] == _REFRESH:
                waiting_event = event
            elif event is not None:
                await self._write(response, _line(*event))
            if waiting_event is not None and loop.time() >= refresh_at:
                await self._write(response, _line(*waiting_event))
                refresh_at, waiting_event = loop.time() + _REFRESH_SECONDS, None
            if loop.time() >= check_at:
                if not await session_lasts():
                    await self._write(response, _line("reload", ""))
                    return
                await self._write(response, _HEARTBEAT)
                check_at = loop.time() + self._settings.stream_check_seconds

    async def _write(self, response: web.StreamResponse, data: bytes) -> None:
        async with asyncio.timeout(self._settings.stall_seconds):
            await response.write(data)


class _PendingEvents:
    """Waits for events for a limited time without losing any."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._next: asyncio.Task[tuple[str, str]] | None = None

    async def next(self, seconds: float) -> tuple[str, str] | None:
        """Returns the next event; None if no event comes within `seconds`."""
        if self._next is None:
            self._next = asyncio.create_task(self._read())
        done, _ = await asyncio.wait({self._next}, timeout=seconds)
        if not done:
            return None
        finished, self._next = self._next, None
        return finished.result()

    async def _read(self) -> tuple[str, str]:
        return await anext(self._events)

    async def aclose(self) -> None:
        """Stops waiting, and closes the source of events."""
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
