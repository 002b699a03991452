"""Live updates: format, limits and end."""

import socket
from collections.abc import Callable

from tests.support.poll import until
from tests.unit.console.conftest import Desk


def follow(desk: Desk, token: str) -> socket.socket:
    caller = socket.create_connection(("127.0.0.1", desk.console.port), timeout=60)
    head = f"GET /live HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\nCookie: session={token}\r\n\r\n"
    caller.sendall(head.encode())
    return caller


def heard(caller: socket.socket, words: bytes) -> bytes:
    """Reads until the given text has arrived; raises where the stream ends before."""
    got = b""
    while words not in got:
        chunk = caller.recv(65536)
        if not chunk:
            raise AssertionError(got)
        got += chunk
    return got


def test_events_arrive_as_they_come_and_lines_cannot_forge_another(start: Callable[..., Desk]) -> None:
    desk = start()
    with follow(desk, desk.channel.begin("bob")) as caller:
        head = heard(caller, b"retry: ")
        assert b"Content-Type: text/event-stream\r\n" in head
        desk.tick("line", "one\nevent: forged")
        assert b"event: line\ndata: one\ndata: event: forged\n\n" in heard(caller, b"forged\n\n")
        desk.end()
        heard(caller, b"event: end\n")


def test_streams_are_limited_per_session_and_freed_on_disconnect(start: Callable[..., Desk]) -> None:
    desk = start(session_streams=1)
    token = desk.channel.begin("bob")
    browser = desk.browser()
    browser.cookies["session"] = token
    with follow(desk, token) as caller:
        heard(caller, b"retry: ")
        assert browser.get("/live").status == 429
        with follow(desk, desk.channel.begin("bob")) as another:
            heard(another, b"retry: ")
    until(lambda: desk.ended == 2, "the events to be let go")
    with follow(desk, token) as caller:
        heard(caller, b"retry: ")


def test_updates_end_with_the_session(start: Callable[..., Desk]) -> None:
    desk = start(stream_check_seconds=0.1)
    token = desk.channel.begin("bob")
    with follow(desk, token) as caller:
        heard(caller, b": \n\n")
        desk.channel.sessions.pop(token)
        heard(caller, b"event: reload\n")


def test_updates_are_no_use_of_the_session(start: Callable[..., Desk]) -> None:
    desk = start(stream_check_seconds=0.1)
    token = desk.channel.begin("bob")
    with follow(desk, token) as caller:
        heard(caller, b": \n\n")
        desk.channel.sessions.pop(token)
        heard(caller, b"event: reload\n")
    asked = [request.automatic for rpc, request, _ in desk.channel.calls if rpc.endswith("/GetSession")]
    assert len(asked) > 1
    assert all(asked)


def test_updates_end_when_the_console_stops(start: Callable[..., Desk]) -> None:
    desk = start()
    with follow(desk, desk.channel.begin("bob")) as caller:
        heard(caller, b"retry: ")
        desk.stop()
        assert b"".join(iter(lambda: caller.recv(65536), b"")) == b"0\r\n\r\n"
    assert desk.ended == 1


def test_refreshes_that_follow_each_other_are_sent_as_one_and_the_last_is_never_lost(
    start: Callable[..., Desk],
) -> None:
    desk = start()
    with follow(desk, desk.channel.begin("bob")) as caller:
        heard(caller, b"retry: ")
        for number in range(50):
            desk.tick("refresh", f"number {number}.")
        desk.end()
        got = heard(caller, b"event: end\n")
    assert b"data: number 49.\n" in got
    assert got.count(b"event: refresh\n") < 10
