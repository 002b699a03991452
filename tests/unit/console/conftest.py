import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from console.app import Console
from console.pages import waiting
from console.settings import ConsoleSettings
from console.visit import ADMINISTRATORS, ALL_ROLES, FileDownload, Page, PageEvents, PageResult, Redirect, View, Visit
from contract.refusals import Refusal
from edge.admission.trial import try_call
from tests.support.browsing import Browser
from tests.support.loop_thread import LoopThread
from tests.unit.console.people import PeopleChannel

HOSTILE = "<script>alert(1)</script>"


class Desk:
    """A started console with test pages, and its users."""

    def __init__(self, thread: LoopThread, settings: ConsoleSettings) -> None:
        self.channel = PeopleChannel()
        self.thread = thread
        self.visits: list[Visit] = []
        self.ticks: asyncio.Queue[tuple[str, str] | None] = asyncio.Queue()
        self.ended = 0
        self.downloads = 0
        self.let_go = asyncio.Event()
        self.console = Console(settings, self.channel, try_call, self._pages())
        thread.run(self.console.start())

    def stop(self) -> None:
        self.thread.run(self.console.stop())

    def browser(self, name: str | None = None) -> Browser:
        """Returns a browser; with a name, of a user who has signed in."""
        browser = Browser(("127.0.0.1", self.console.port))
        if name is not None:
            browser.cookies["session"] = self.channel.begin(name)
        return browser

    def tick(self, event: str, data: str) -> None:
        self.thread.loop.call_soon_threadsafe(self.ticks.put_nowait, (event, data))

    def end_downloads(self) -> None:
        self.thread.loop.call_soon_threadsafe(self.let_go.set)

    def end(self) -> None:
        self.thread.loop.call_soon_threadsafe(self.ticks.put_nowait, None)

    def _pages(self) -> Iterator[Page]:
        yield Page("GET", "/runs", ALL_ROLES, self._seen)
        yield Page("GET", waiting.WAITING, ALL_ROLES, waiting.show)
        yield Page("GET", "/keys", ADMINISTRATORS, self._seen)
        yield Page("GET", "/keys/{key_id}", ADMINISTRATORS, self._seen)
        yield Page("POST", "/keys/{key_id}/rename", ADMINISTRATORS, self._renamed, repeated_fields=frozenset({"scope"}))
        yield Page("POST", "/attach", ADMINISTRATORS, self._renamed, takes_files=True)
        yield Page("GET", "/refused", ALL_ROLES, self._refused)
        yield Page("GET", "/broken", ALL_ROLES, self._broken)
        yield Page("GET", "/elsewhere", ALL_ROLES, self._elsewhere)
        yield Page("GET", "/live", ALL_ROLES, self._live)
        yield Page("GET", "/download", ALL_ROLES, self._download)
        yield Page("GET", "/held", ALL_ROLES, self._held)

    async def _seen(self, visit: Visit) -> PageResult:
        self.visits.append(visit)
        return _view(f"{visit.user.name} sees it")

    async def _renamed(self, visit: Visit) -> PageResult:
        self.visits.append(visit)
        return Redirect("/keys", f"Renamed to {visit.sent('name')}.")

    async def _refused(self, _: Visit) -> PageResult:
        raise Refusal("invalid_request", HOSTILE, details=[{"name": "<b>", "reason": "must be <i>plain</i>"}])

    async def _broken(self, _: Visit) -> PageResult:
        raise ValueError("secret words")

    async def _held(self, visit: Visit) -> PageResult:
        self.visits.append(visit)
        await asyncio.Event().wait()
        raise AssertionError

    async def _elsewhere(self, _: Visit) -> PageResult:
        return Redirect("//example.org/")

    async def _download(self, visit: Visit) -> PageResult:
        length = visit.query.get("length")
        inline = visit.query.get("inline") == "yes"
        parts = self._held_parts() if visit.query.get("held") else self._parts()
        self.downloads += 1
        return FileDownload(parts, HOSTILE, "image/png", None if length is None else int(length), inline)

    async def _held_parts(self) -> AsyncGenerator[bytes, None]:
        yield b"one "
        await self.let_go.wait()
        yield b"two"

    async def _parts(self) -> AsyncGenerator[bytes, None]:
        yield b"one "
        yield b"two"

    async def _live(self, _: Visit) -> PageResult:
        return PageEvents(self._ticks())

    async def _ticks(self) -> AsyncIterator[tuple[str, str]]:
        try:
            while (tick := await self.ticks.get()) is not None:
                yield tick
        finally:
            self.ended += 1


def _view(message: str) -> View:
    shown: dict[str, Any] = {"problems": (), "details": {}, "retry_after": 0, "request_id": "", "status": 200}
    return View("refused.html", {**shown, "title": "Seen", "message": message})


@pytest.fixture(name="start", scope="module")
def _start() -> Iterator[Callable[..., Desk]]:
    """Starts consoles that run until the end of the module's tests."""
    with ExitStack() as stack:
        thread = stack.enter_context(LoopThread())

        def start(**settings: Any) -> Desk:
            generous = {"head_seconds": 60.0, "idle_seconds": 60.0, "drain_seconds": 60.0}
            desk = Desk(thread, ConsoleSettings(**{"port": 0, **generous, **settings}))
            stack.callback(desk.stop)
            return desk

        yield start


@pytest.fixture(name="desk", scope="module")
def _desk(start: Callable[..., Desk]) -> Desk:
    return start()
