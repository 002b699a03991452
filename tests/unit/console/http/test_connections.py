"""Slow browsers, alone and in great numbers."""

import asyncio
import gc
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from console.http import connections as connections_module
from console.http.connections import ConsoleConnection
from contract.connections import WaitKind
from tests.support.aiohttp_names import names_within, private_names_of_aiohttp
from tests.support.poll import until
from tests.unit.console.conftest import Desk

HALF_A_REQUEST = b"GET /sign-in HTTP/1.1\r\nHost: "
HALF_A_FORM = b"POST /sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: visitor=a\r\nContent-Length: 1000\r\n\r\ncsrf="


def connect(desk: Desk, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", desk.console.port), timeout=60, source_address=(source, 0))


def is_closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


@contextmanager
def crowded(desk: Desk, count: int, sent: bytes, source: str) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        crowd = []
        for _ in range(count):
            with suppress(ConnectionError):
                crowd.append(stack.enter_context(connect(desk, source)))
                crowd[-1].sendall(sent)
        yield crowd


def connections(desk: Desk) -> list[ConsoleConnection]:
    return desk.console.connections


ARRIVED: dict[bytes, Callable[[ConsoleConnection], bool]] = {
    b"": lambda _: True,
    HALF_A_REQUEST: lambda connection: connection.wait_kind is WaitKind.HEAD,
    HALF_A_FORM: lambda connection: connection.wait_kind is WaitKind.BODY,
}


@pytest.mark.parametrize("sent", ARRIVED, ids=["nothing", "headers", "form"])
def test_a_crowd_of_slow_browsers_shuts_nobody_out(start: Callable[..., Desk], sent: bytes) -> None:
    desk = start(connections=20, address_connections=20)
    with crowded(desk, 20, sent, "127.0.0.2"):
        until(lambda: sum(map(ARRIVED[sent], connections(desk))) == 20, "what the crowd sends")
        for _ in range(5):
            assert desk.browser().get("/sign-in").status == 200


def test_who_is_refused_is_no_defect(start: Callable[..., Desk], caplog: pytest.LogCaptureFixture) -> None:
    desk = start(connections=0, address_connections=1)
    with connect(desk) as refused:
        until(lambda: is_closed(refused), "the end of a connection for which there is no room")
    assert desk.thread.run(no_failed_tasks())
    assert not [record for record in caplog.records if record.name == "asyncio"]


async def no_failed_tasks() -> bool:
    gc.collect()
    await asyncio.sleep(0)
    return True


def test_an_address_with_too_many_connections_takes_them_from_itself_alone(start: Callable[..., Desk]) -> None:
    desk = start(connections=100, address_connections=10)
    with connect(desk, "127.0.0.3") as person, crowded(desk, 60, HALF_A_REQUEST, "127.0.0.2") as crowd:
        until(lambda: sum(map(is_closed, crowd)) >= 50, "fifty evicted connections")
        assert not is_closed(person)


def test_behind_a_proxy_all_connections_may_come_from_its_address(start: Callable[..., Desk]) -> None:
    desk = start(address_connections=2, client_address="load_balancer")
    with crowded(desk, 20, b"", "127.0.0.2") as crowd:
        assert desk.browser().get("/sign-in").status == 200
        assert not any(map(is_closed, crowd))


def test_headers_that_do_not_end_in_time_close_the_connection(start: Callable[..., Desk]) -> None:
    desk = start(head_seconds=0.2)
    with connect(desk) as slow, connect(desk) as idle:
        slow.sendall(HALF_A_REQUEST)
        until(lambda: is_closed(slow), "the end of the slow connection")
        assert not is_closed(idle)


def test_a_browser_that_takes_nothing_of_its_answers_is_disconnected(start: Callable[..., Desk]) -> None:
    desk = start(stall_seconds=0.1)
    with connect(desk) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        request = b"GET /sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        slow.settimeout(1)

        def ended() -> bool:
            try:
                slow.sendall(request * 100)
            except TimeoutError:
                return False
            except ConnectionError:
                return True
            return False

        until(ended, "the end of a connection that is not read")


def test_only_public_parts_of_aiohttp_are_used() -> None:
    assert not private_names_of_aiohttp() & names_within(connections_module)
