import asyncio
import errno
import socket
from contextlib import ExitStack

import pytest
import uvloop

from edge.http.listener import Listener, listening_sockets

CALLERS = 200


class ConnectionRecorder(asyncio.Protocol):
    """Remembers every connection."""

    transports: list[asyncio.BaseTransport]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transports.append(transport)


def made() -> type[ConnectionRecorder]:
    return type("ConnectionRecorder", (ConnectionRecorder,), {"transports": []})


async def rounds(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


def test_many_connections_are_accepted_in_few_iterations_of_the_loop() -> None:
    async def attempt() -> int:
        protocol = made()
        listener = Listener(protocol, listening_sockets("127.0.0.1", 0))
        with ExitStack() as stack:
            for _ in range(CALLERS):
                stack.enter_context(socket.create_connection(("127.0.0.1", listener.port)))
            await rounds(20)
            taken = len(protocol.transports)
            for transport in protocol.transports:
                transport.close()
            await listener.close()
        return taken

    assert uvloop.run(attempt()) == CALLERS


def test_queued_connections_are_accepted_before_the_listening_sockets_close() -> None:
    async def attempt() -> int:
        protocol = made()
        listener = Listener(protocol, listening_sockets("127.0.0.1", 0))
        with ExitStack() as stack:
            for _ in range(CALLERS):
                stack.enter_context(socket.create_connection(("127.0.0.1", listener.port)))
            await listener.close()
            for transport in protocol.transports:
                transport.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", listener.port))
        return len(protocol.transports)

    assert uvloop.run(attempt()) == CALLERS


def test_an_address_in_use_is_an_error() -> None:
    async def attempt() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            with pytest.raises(OSError, match="in use") as failed:
                listening_sockets("127.0.0.1", taken.getsockname()[1])
            assert failed.value.errno == errno.EADDRINUSE

    uvloop.run(attempt())


def test_a_name_may_have_several_addresses() -> None:
    async def attempt() -> None:
        listener = Listener(made(), listening_sockets("localhost", 0))
        socket.create_connection(("localhost", listener.port)).close()
        await listener.close()

    uvloop.run(attempt())


def test_accepting_is_tried_again_after_an_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    accept = socket.socket.accept
    failures = 3

    def failing(self: socket.socket) -> object:
        nonlocal failures
        if failures:
            failures -= 1
            raise OSError(errno.EMFILE, "too many open files")
        return accept(self)

    async def attempt() -> None:
        monkeypatch.setattr(socket.socket, "accept", failing)
        protocol = made()
        listener = Listener(protocol, listening_sockets("127.0.0.1", 0))
        with socket.create_connection(("127.0.0.1", listener.port)):
            async with asyncio.timeout(30):
                while not protocol.transports:  # noqa: ASYNC110 - a state of the loop itself
                    await asyncio.sleep(0.01)
            protocol.transports[0].close()
            await listener.close()

    uvloop.run(attempt())
    assert "No connection can be accepted" in caplog.text
