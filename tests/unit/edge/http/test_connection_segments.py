"""Requests that arrive in pieces of any size, without a network."""

import asyncio

import pytest

from contract.connections import WaitKind
from edge.http.framing import MAX_HEAD_BYTES, MAX_LINE_BYTES
from tests.unit.edge.http.conftest import Echo
from tests.unit.edge.wire import Wire


class FakeTransport(asyncio.Transport):
    """A transport without a socket; what is written stays in `written`."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self._closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._closing = True

    abort = close

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def write_eof(self) -> None:
        pass


def test_a_connection_does_not_wait_for_its_caller_once_a_request_has_arrived() -> None:
    async def attempt() -> None:
        echo = Echo()
        await echo.start()
        assert echo.http is not None
        connection = echo.http()
        connection.connection_made(FakeTransport())
        awaited = [connection.wait_kind]
        for piece in (b"GET / HTTP/1.1\r\n", b"Host: t\r\n\r\n"):
            connection.data_received(piece)
            awaited.append(connection.wait_kind)
        assert awaited == [WaitKind.REQUEST, WaitKind.HEAD, WaitKind.NOTHING]
        assert connection.waiting_since == 0
        connection.connection_lost(None)
        await echo.stop()

    asyncio.run(attempt())


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: 5\r\n\r\nab\r\n\r",
        b"Transfer-Encoding: chunked\r\n\r\n3;x=y\r\na\r\n\r\n02\r\n\n\r\r\n0\r\nX-Request-Id: late\r\n\r\n",
        b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 5\r\n\r\nabcde",
        b"Connection: Upgrade\r\nUpgrade: h2c\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n",
    ],
    ids=["length", "chunks", "upgrade with length", "upgrade with chunks"],
)
def test_pieces_of_any_size_make_the_same_request(framing: bytes, size: int) -> None:
    data = b"\r\nPOST /a HTTP/1.1\r\nHost: t\r\nX-Request-Id: mine\r\n" + framing
    written = asyncio.run(answered_to(*(data[start : start + size] for start in range(0, len(data), size))))
    assert written.count(b"HTTP/1.1 ") == 1
    assert b"X-Request-Id: mine\r\n" in written
    assert written.endswith(b"\r\n\r\nPOST /a? 5")


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_what_follows_a_body_is_the_next_request(size: int) -> None:
    head = b"POST /%d HTTP/1.1\r\nHost: t\r\n"
    data = b"".join(
        [
            head % 1 + b"Content-Length: 3\r\n\r\nabc",
            head % 2 + b"Transfer-Encoding: chunked\r\n\r\n4\r\n\r\n\r\n\r\n0\r\n\r\n",
            b"BREW /3 HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\n\r\nab" if size == 1000 else b"",
            head % 4 + b"Content-Length: 0\r\n\r\n",
            b"NONSENSE\r\n\r\n",
        ]
    )
    written = asyncio.run(answered_to(*(data[start : start + size] for start in range(0, len(data), size))))
    brewed = b"BREW /3? 2" if size == 1000 else b""
    for answer in (b"POST /1? 3", b"POST /2? 4", brewed, b"POST /4? 0"):
        assert answer in written
    assert written.count(b"HTTP/1.1 200") == 3 + bool(brewed)
    assert written.count(b"HTTP/1.1 400") == 1


def test_good_requests_before_a_malformed_one_in_the_same_segment_are_answered(wire: Wire) -> None:
    wire.send("GET /1 HTTP/1.1\r\nHost: t\r\n\r\nGET /2 HTTP/1.1\r\nHost: t\r\n\r\nNONSENSE\r\n\r\n")
    assert [wire.read().body, wire.read().body] == [b"GET /1? 0", b"GET /2? 0"]
    assert wire.read().code == "invalid_request"
    assert wire.closed()


def test_hundreds_of_pipelined_requests_in_one_segment_are_answered(wire: Wire) -> None:
    wire.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: t\r\n\r\n" % number for number in range(1000)))
    assert [wire.read().body for _ in range(1000)] == [b"GET /%d? 0" % number for number in range(1000)]


@pytest.mark.parametrize(
    ("head", "bound"),
    [
        (b"GET /" + b"a" * MAX_LINE_BYTES + b" HTTP/1.1\r\nHost: t\r\n\r\n", "a target of at most 32,768 bytes"),
        (
            b"GET / HTTP/1.1\r\nHost: t\r\nX: " + b"a" * MAX_LINE_BYTES + b"\r\n\r\n",
            "headers of at most 32,768 bytes each",
        ),
        (b"GET / HTTP/1.1\r\nHost: t\r\n" + b"X: y\r\n" * 9_000 + b"\r\n", "at most 8,192 headers"),
        (b"GET / HTTP/1.1\r\nHost: t\r\n" + b"X: yyyyyyyyyyyyyyyy\r\n" * 4_000 + b"\r\n", "65,536 bytes together"),
        (b"GET / HTTP/1.1\r\n\r\n", ""),
        (b"GET * HTTP/1.1\r\nHost: t\r\n\r\n", ""),
        (b"GET http:///x HTTP/1.1\r\nHost: t\r\n\r\n", ""),
        (b"GET http://h:99999/x HTTP/1.1\r\nHost: t\r\n\r\n", ""),
        (b"CONNECT a:b HTTP/1.1\r\nHost: t\r\n\r\n", ""),
    ],
    ids=lambda value: repr(value[:40]),
)
@pytest.mark.parametrize("size", [500, 1_000_000])
def test_a_head_beyond_the_bounds_or_without_a_host_is_malformed(head: bytes, bound: str, size: int) -> None:
    written = asyncio.run(answered_to(*(head[start : start + size] for start in range(0, len(head), size))))
    assert written.startswith(b"HTTP/1.1 400 ")
    assert bound.encode() in written
    assert written.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize(
    ("start", "endless"),
    [
        (b"GET / HTTP/1.1\r\n", b"X: " + b"y" * 995 + b"\r\n"),
        (b"GET / HTTP/1.1\r\nX:", b"y" * 1000),
        (b"", b"\r\n" * 500),
    ],
    ids=["headers", "header", "blank lines"],
)
def test_a_head_without_end_is_refused_as_soon_as_it_is_too_long(start: bytes, endless: bytes) -> None:
    short = asyncio.run(answered_to(start, *[endless] * 30))
    written = asyncio.run(answered_to(start, *[endless] * (2 * MAX_HEAD_BYTES // 1000)))
    assert short == b""
    assert written.startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("endless", [b"1;" + b"x" * 1000, b"0\r\nT: " + b"x" * 1000], ids=["extension", "trailer"])
def test_framing_without_end_breaks_the_body(endless: bytes) -> None:
    head = b"POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
    written = asyncio.run(answered_to(head, endless, *[b"x" * 1000] * (2 * MAX_HEAD_BYTES // 1000)))
    assert written.startswith(b"HTTP/1.1 400 ")
    assert b"is not framed as its headers say" in written


def test_what_can_be_recognized_of_a_malformed_head_is_used(wire: Wire) -> None:
    wire.send(b"GET / HTTP/9.9\r\nX-Request-Id: mine\r\nbad header\r\nOrigin:  http://o \r\n\r\n")
    reply = wire.read()
    assert (reply.status, reply.headers["X-Request-Id"]) == (400, "mine")
    assert reply.headers["Access-Control-Allow-Origin"] == "http://o"


def test_a_length_beyond_all_numbers_is_too_large(wire: Wire) -> None:
    wire.send(f"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: {'9' * 30}\r\n\r\n")
    assert wire.read().code == "payload_too_large"


def test_an_unknown_method_is_known_in_pieces_of_any_size() -> None:
    data = b"BREW /pot HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\n\r\nab"
    for size in (1, 2, 3, 19):
        written = asyncio.run(answered_to(*(data[start : start + size] for start in range(0, len(data), size))))
        assert written.endswith(b"BREW /pot? 2"), size


def test_a_closing_connection_waits_for_its_reader_whatever_follows() -> None:
    async def attempt() -> None:
        echo = Echo()
        await echo.start()
        assert echo.http is not None
        connection = echo.http()
        connection.connection_made(FakeTransport())
        bad = b"POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"
        connection.data_received(bad + b"GET / HTTP/1.1\r\nHost: t\r\n\r\n")
        for _ in range(60):
            await asyncio.sleep(0)
        assert not connection.busy
        assert (connection.wait_kind, connection.waiting_since > 0) == (WaitKind.READER, True)
        connection.connection_lost(None)
        await echo.stop()

    asyncio.run(attempt())


def test_a_refused_caller_that_ends_its_side_is_not_kept() -> None:
    async def attempt() -> None:
        echo = Echo()
        await echo.start()
        assert echo.http is not None
        connection, transport = echo.http(), FakeTransport()
        connection.connection_made(transport)
        connection.data_received(b"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 9999999\r\n\r\n")
        for _ in range(60):
            await asyncio.sleep(0)
        assert (b" 413 " in transport.written, transport.is_closing()) == (True, False)
        connection.eof_received()
        for _ in range(60):
            await asyncio.sleep(0)
        assert transport.is_closing()
        connection.connection_lost(None)
        await echo.stop()

    asyncio.run(attempt())


async def answered_to(*pieces: bytes) -> bytes:
    """Returns all that a connection answers to bytes that arrive in exactly these pieces."""
    echo = Echo()
    await echo.start()
    assert echo.http is not None
    connection, transport = echo.http(), FakeTransport()
    connection.connection_made(transport)
    for piece in pieces:
        connection.data_received(piece)
        # The loop has nothing else to do: what can be answered is answered after a few rounds.
        for _ in range(60):
            await asyncio.sleep(0)
    connection.connection_lost(None)
    await echo.stop()
    return transport.written


def test_the_end_of_a_body_is_no_beginning_of_a_head() -> None:
    head = b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 100001\r\n\r\n"
    written = asyncio.run(answered_to(head + b"x", b"x" * 100_000))
    assert written.count(b"HTTP/1.1 ") == 1
    assert written.endswith(b"POST /a? 100001")
