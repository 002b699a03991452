"""A server that answers what was asked, and a connection to it."""

import threading
from collections.abc import Iterator

import pytest

from contract.connections import Timeouts
from contract.refusals import Refusal
from edge.http.listener import Listener, listening_sockets
from edge.http.request import HttpRequest
from edge.http.response import Answer, refused
from edge.http.server import HttpLimits, HttpServer
from tests.support.loop_thread import LoopThread
from tests.support.poll import LONGEST_WAIT_SECONDS
from tests.unit.edge.wire import Wire

TIMEOUTS = Timeouts(idle=60, head=30, stall=0.2)


class Echo:
    """A server that reads bodies as the edge does and answers with what it has parsed."""

    def __init__(self) -> None:
        self.port = 0
        self.seen: list[HttpRequest] = []
        self.http: HttpServer | None = None
        self.began, self.may_answer = threading.Event(), threading.Event()
        self._listener: Listener | None = None

    async def start(self) -> None:
        self.http = HttpServer(self.handle, HttpLimits(100, 8_000_000, TIMEOUTS))
        self._listener = Listener(self.http, listening_sockets("127.0.0.1", 0))
        self.port = self._listener.port

    async def stop(self) -> None:
        assert self._listener is not None
        assert self.http is not None
        await self.http.stop(self._listener, 1)

    async def handle(self, request: HttpRequest) -> Answer:
        self.seen.append(request)
        if request.path == "/broken":
            raise ValueError("secret")
        if request.path == "/busy":
            # What arrives meanwhile is seen in the turn of the loop in which the answer is written.
            self.began.set()
            self.may_answer.wait(LONGEST_WAIT_SECONDS)
        try:
            request.check_framing()
            request.send_continue()
            body = (
                b""
                if request.path == "/ignore" or request.method == "CONNECT"
                else await request.read_body(0.2 if request.path == "/quick" else 60)
            )
        except Refusal as refusal:
            return refused(refusal, request)
        if request.path == "/large":
            return Answer(200, b"x" * 4_000_000)
        return Answer(200, f"{request.method} {request.path}?{request.query} {len(body)}".encode("utf-8", "replace"))


@pytest.fixture(name="thread", scope="module")
def _thread() -> Iterator[LoopThread]:
    with LoopThread() as thread:
        yield thread


@pytest.fixture(name="echo", scope="module")
def _echo(thread: LoopThread) -> Iterator[Echo]:
    echo = Echo()
    thread.run(echo.start())
    yield echo
    thread.run(echo.stop())


@pytest.fixture(name="wire")
def _wire(echo: Echo) -> Iterator[Wire]:
    with Wire(echo.port) as wire:
        yield wire
