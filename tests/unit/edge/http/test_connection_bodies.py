"""Bodies of requests: invitation, bounds, framing that breaks and bodies that nobody reads."""

import socket

import pytest

from edge.http.request import MAX_BODY_BYTES
from tests.support.poll import wait_until
from tests.unit.edge.http.conftest import Echo
from tests.unit.edge.wire import Wire

CHUNK = b"10000\r\n" + b"x" * 65536 + b"\r\n"


def test_a_body_that_fits_is_invited_at_once(wire: Wire) -> None:
    wire.send("POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
    assert wire.read().status == 100
    assert wire.send("12345").read().body == b"POST /? 5"


def test_a_chunked_body_is_invited_too(wire: Wire) -> None:
    wire.send("POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\nExpect: 100-Continue\r\n\r\n")
    assert wire.read().status == 100
    assert wire.send("5\r\n12345\r\n0\r\n\r\n").read().body == b"POST /? 5"


def test_a_body_that_does_not_fit_is_not_invited(wire: Wire) -> None:
    wire.send(f"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: {MAX_BODY_BYTES + 1}\r\nExpect: 100-continue\r\n\r\n")
    reply = wire.read()
    assert (reply.status, reply.code, reply.headers["Connection"]) == (413, "payload_too_large", "close")


def test_another_expectation_is_ignored(wire: Wire) -> None:
    assert wire.call("POST", "/", "Expect: miracles", body=b"1").body == b"POST /? 1"


def test_http_1_0_is_not_invited(wire: Wire) -> None:
    wire.send("POST / HTTP/1.0\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n1")
    assert wire.read().status == 200


def test_the_longest_body_is_read(wire: Wire) -> None:
    assert wire.call("POST", "/", body=b"x" * MAX_BODY_BYTES).body == f"POST /? {MAX_BODY_BYTES}".encode()


def test_413_is_decided_from_the_declared_length(wire: Wire) -> None:
    wire.send(f"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: {2 * MAX_BODY_BYTES}\r\n\r\n")
    assert wire.read().code == "payload_too_large"


def test_413_reaches_a_caller_that_is_still_sending(wire: Wire) -> None:
    wire.send(f"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: {40 * MAX_BODY_BYTES}\r\n\r\n")
    for _ in range(40):
        wire.send(b"x" * MAX_BODY_BYTES)
    assert wire.read().code == "payload_too_large"
    assert wire.closed()


def test_a_chunked_body_is_cut_as_soon_as_it_passes_the_bound(wire: Wire) -> None:
    wire.send("POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n")
    wire.send(CHUNK * 16)
    wire.send(b"1\r\nx\r\n")
    assert wire.read().code == "payload_too_large"
    for _ in range(32):
        wire.send(CHUNK)


def test_a_chunked_body_of_exactly_the_bound_is_read(wire: Wire) -> None:
    wire.send(b"POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNK * 16 + b"0\r\n\r\n")
    assert wire.read().body == f"POST /? {MAX_BODY_BYTES}".encode()


@pytest.mark.parametrize("garbage", [b"zz\r\nabc\r\n", b"1_0\r\n", b"5\r\n123456789\r\n"])
def test_a_body_whose_framing_breaks_is_refused_and_closed(echo: Echo, wire: Wire, garbage: bytes) -> None:
    before = len(echo.seen)
    wire.send(b"POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n")
    wait_until(lambda: len(echo.seen) > before)
    reply = wire.send(garbage).read()
    assert (reply.code, reply.json["error"]["details"][0]["name"]) == ("invalid_request", "body")
    assert wire.closed()


@pytest.mark.parametrize(
    "end", [b"0\r\nbad\r\n\r\n", b"0\r\nA : b\r\n\r\n", b"0\r\nContent-Length: 5\r\n\r\n", b'2;a="\r\n{}\r\n0\r\n\r\n']
)
@pytest.mark.parametrize("apart", [True, False])
def test_framing_that_the_parser_alone_refuses_breaks_the_body(echo: Echo, wire: Wire, end: bytes, apart: bool) -> None:
    head = b"POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
    before = len(echo.seen)
    if apart:
        wire.send(head)
        wait_until(lambda: len(echo.seen) > before)
        wire.send(end)
    else:
        wire.send(head + end)
    assert wire.read().json["error"]["details"] == [{"name": "body", "reason": "is not framed as its headers say"}]
    assert wire.closed()


def test_requests_before_one_that_is_cut_short_are_answered(wire: Wire) -> None:
    get = b"GET /%d HTTP/1.1\r\nHost: t\r\n\r\n"
    wire.send(get % 1 + get % 2 + b"POST /3 HTTP/1.1\r\nHost: t\r\nContent-Length: 10\r\n\r\n{}")
    wire.socket.shutdown(socket.SHUT_WR)
    assert [wire.read().body, wire.read().body] == [b"GET /1? 0", b"GET /2? 0"]
    assert wire.closed()


def test_a_body_that_does_not_arrive_in_time_is_refused(wire: Wire) -> None:
    reply = wire.send("POST /quick HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n\r\n12").read()
    assert reply.json["error"]["details"] == [{"name": "body", "reason": "did not arrive in time"}]


def test_a_body_that_nobody_reads_does_not_disturb_the_next_request(wire: Wire) -> None:
    wire.send("POST /ignore HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n\r\n")
    assert wire.read().body == b"POST /ignore? 0"
    assert wire.send("12345").call("GET", "/next").body == b"GET /next? 0"


def test_bodies_are_never_decompressed(wire: Wire) -> None:
    assert wire.call("POST", "/", "Content-Encoding: gzip", body=b"not gzip").body == b"POST /? 8"


def test_a_caller_that_disconnects_within_a_body_is_forgotten(echo: Echo) -> None:
    with Wire(echo.port) as wire:
        wire.send("POST /gone HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n\r\n12")
        wait_until(lambda: any(request.path == "/gone" for request in echo.seen))
    request = next(request for request in echo.seen if request.path == "/gone")
    wait_until(lambda: request.connection.lost)
    assert echo.http is not None
    wait_until(lambda: request.connection not in echo.http.callers if echo.http else False)


def test_a_body_that_is_dropped_is_not_counted(echo: Echo, wire: Wire) -> None:
    assert echo.http is not None
    wire.send("POST /ignore HTTP/1.1\r\nHost: t\r\nContent-Length: 500000\r\n\r\n")
    assert wire.read().body == b"POST /ignore? 0"
    before = echo.http.buffers.reserved_bytes
    wire.send(b"x" * 400_000)
    assert echo.http.buffers.reserved_bytes <= before
    assert wire.send(b"x" * 100_000).call("GET", "/next").body == b"GET /next? 0"
