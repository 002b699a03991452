"""Time-outs of the client hold for whole answers, however slowly they arrive."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from workflow_api_client import AsyncClient, Client, ConnectionFailedError
from workflow_api_client.deadlines import BoundedStream, Deadline

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
CREDENTIALS: dict[str, Any] = {"key": "k", "external_id": "e", "timeout": 0.3, "retry_seconds": 0}


@pytest.fixture(params=["head", "answer"])
def trickling(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a service that sends a byte now and then, without end."""
    first = {"head": b"HTTP/1.1 200 ", "answer": HEAD}[request.param]
    stopped = threading.Event()

    def serve() -> None:
        while not stopped.is_set():
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                try:
                    connection.sendall(first)
                    while not stopped.wait(0.05):
                        connection.sendall(b"x")
                except OSError:
                    continue

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        stopped.set()
        with socket.create_connection(listener.getsockname()):
            thread.join()


def test_an_answer_that_trickles_is_given_up(trickling: str) -> None:
    with Client(trickling, **CREDENTIALS) as client, pytest.raises(ConnectionFailedError, match="Timeout"):
        client.me()


def test_an_answer_that_trickles_is_given_up_by_a_task(trickling: str) -> None:
    async def call() -> None:
        async with AsyncClient(trickling, **CREDENTIALS) as client:
            with pytest.raises(ConnectionFailedError, match="Timeout"):
                await client.me()

    asyncio.run(call())


class Silent:
    """Takes note of the time-outs that it is given."""

    def __init__(self) -> None:
        self.given: list[float | None] = []

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        self.given.append(timeout)
        return b""


def test_each_read_has_what_is_left_of_the_time() -> None:
    stream, deadline = Silent(), Deadline()
    bounded = BoundedStream(stream, deadline)
    with deadline.within(1000):
        bounded.read(1, 2000)
        bounded.read(1, 5)
        bounded.read(1)
    bounded.read(1, 2000)
    left, own, rest, free = stream.given
    assert left is not None
    assert rest is not None
    assert 0 < rest <= left <= 1000
    assert (own, free) == (5, 2000)
    with deadline.within(0), pytest.raises(httpx.ReadTimeout):
        bounded.read(1, 5)
