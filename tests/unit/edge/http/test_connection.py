import asyncio
import logging
import socket
import threading
from collections.abc import Iterator
from types import ModuleType

import pytest

from contract.connections.bounded_connection import Timeouts, WaitKind
from contract.refusals import Refusal
from edge.http import connection as connection_module
from edge.http import framing as framing_module
from edge.http import server as server_module
from edge.http.framing import MAX_HEAD_BYTES, MAX_LINE_BYTES
from edge.http.listener import Listener, listening_sockets
from edge.http.request import MAX_BODY_BYTES, HttpRequest
from edge.http.response import Answer, refused
from edge.http.server import HttpLimits, HttpServer
from tests.support.aiohttp_names import names_within, private_names_of_aiohttp
from tests.support.loop_thread import LoopThread
from tests.support.poll import LONGEST_WAIT_SECONDS, wait_until
from tests.unit.edge.wire import Reply, Wire

CHUNK = b"10000\r\n" + b"x" * 65536 + b"\r\n"


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
            request.invite_body()
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


def is_envelope(reply: Reply) -> bool:
    common = {"X-Request-Id", "Cache-Control", "X-Content-Type-Options", "Date"}
    return reply.json["error"]["request_id"] == reply.headers["X-Request-Id"] and common <= set(reply.headers)


def test_connection_is_kept_between_requests(wire: Wire) -> None:
    assert wire.call("GET", "/a").body == b"GET /a? 0"
    assert wire.call("POST", "/b?c=d", body=b"12345").body == b"POST /b?c=d 5"


def test_pipelined_requests_are_answered_in_order(wire: Wire) -> None:
    wire.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: t\r\n\r\n" % n for n in range(100)))
    assert [wire.read().body for _ in range(100)] == [b"GET /%d? 0" % n for n in range(100)]


def test_a_caller_that_stops_sending_gets_the_answer_that_is_written_already(echo: Echo, wire: Wire) -> None:
    wire.send("GET /busy HTTP/1.1\r\nHost: t\r\n\r\n")
    assert echo.began.wait(LONGEST_WAIT_SECONDS)
    wire.socket.shutdown(socket.SHUT_WR)
    echo.may_answer.set()
    assert wire.read().body == b"GET /busy? 0"
    assert wire.closed()


def test_a_request_may_arrive_byte_by_byte(wire: Wire) -> None:
    for byte in b"POST /slow HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\n\r\nab":
        wire.send(bytes([byte]))
    assert wire.read().body == b"POST /slow? 2"


def test_http_1_0_is_closed_after_the_answer(wire: Wire) -> None:
    reply = wire.send("GET /old HTTP/1.0\r\n\r\n").read()
    assert (reply.body, reply.headers["Connection"]) == (b"GET /old? 0", "close")
    assert wire.closed()


def test_http_1_0_is_kept_where_asked(wire: Wire) -> None:
    wire.send("GET /old HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    assert wire.read().headers["Connection"] == "keep-alive"
    assert wire.call("GET", "/again").status == 200


def test_connection_close_is_honoured(wire: Wire) -> None:
    assert wire.call("GET", "/", "Connection: close").headers["Connection"] == "close"
    assert wire.closed()


@pytest.mark.parametrize(
    ("target", "understood"),
    [
        ("http://host:80/api/v1/me?a=b", b"GET /api/v1/me?a=b 0"),
        ("HTTPS://host", b"GET /? 0"),
        ("//api/v1/me", b"GET //api/v1/me? 0"),
        ("/a%2Fb%zz?x=%2F?y", b"GET /a%2Fb%zz?x=%2F?y 0"),
        ("/a;b:c@d", b"GET /a;b:c@d? 0"),
    ],
)
def test_target_is_taken_raw(wire: Wire, target: str, understood: bytes) -> None:
    assert wire.call("GET", target).body == understood


def test_bytes_beyond_ascii_in_target_and_headers_break_nothing(wire: Wire) -> None:
    wire.send(b"GET /\xe9\xff?q=\xc3\xa9 HTTP/1.1\r\nHost: t\r\nOrigin: http://\xff\xc3\xa9\r\nX-Any: \xfe\r\n\r\n")
    reply = wire.read()
    assert reply.status in {200, 400}
    if reply.status == 200:
        assert reply.headers["Access-Control-Allow-Origin"].encode("latin-1") == b"http://\xff\xc3\xa9"


@pytest.mark.parametrize(
    "message",
    [
        b"NONSENSE\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: t\r\n\r\n",
        b"GET /with space HTTP/1.1\r\nHost: t\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: t\r\nbad header\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: t\r\nX: a\x00b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: t\r\nHost: u\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 1_0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: +1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: -1\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: \u0661\r\n\r\n".encode(),
        b"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: identity\r\n\r\n",
        b"GET /" + b"a" * MAX_LINE_BYTES + b" HTTP/1.1\r\nHost: t\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: t\r\nX: " + b"a" * (MAX_LINE_BYTES + 1) + b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/2.0\r\nHost: t\r\n\r\n",
        b"GET / HTTP/0.9\r\nHost: t\r\n\r\n",
        b"GET /\r\nHost: t\r\n\r\n",
    ],
    ids=lambda message: repr(message[:60]),
)
def test_what_the_parser_refuses_gets_the_envelope(wire: Wire, message: bytes) -> None:
    reply = wire.send(message).read()
    assert (reply.status, reply.code, reply.headers["Connection"]) == (400, "invalid_request", "close")
    assert is_envelope(reply)
    assert wire.closed()


def test_a_malformed_request_behind_a_good_one_spoils_only_itself(wire: Wire) -> None:
    assert wire.call("GET", "/good").body == b"GET /good? 0"
    assert wire.send("NONSENSE\r\n\r\n").read().code == "invalid_request"
    assert wire.closed()


def test_the_line_of_a_malformed_request_has_its_id(wire: Wire, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "edge.http.connection")
    reply = wire.send("NONSENSE\r\n\r\n").read()
    (record,) = (one for one in caplog.records if one.message.startswith("Malformed request from "))
    assert record.__dict__["request_id"] == reply.json["error"]["request_id"]


def test_endless_headers_are_cut_off(wire: Wire) -> None:
    wire.send(b"GET / HTTP/1.1\r\nHost: t\r\n")
    line = b"X-%d: " + b"a" * 4000 + b"\r\n"
    for n in range(MAX_HEAD_BYTES // 4000 + 2):
        wire.send(line % n)
    reply = wire.read()
    assert reply.code == "invalid_request"
    assert is_envelope(reply)


def test_request_line_and_headers_of_nearly_32_kib_are_accepted(wire: Wire) -> None:
    path = "/" + "a" * (MAX_LINE_BYTES - 2)
    assert wire.call("GET", path, "X-Long: " + "b" * (MAX_LINE_BYTES - 100)).status == 200


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


@pytest.mark.parametrize("upgrade", ["websocket", "h2c"])
def test_an_upgrade_is_declined_and_its_body_read(wire: Wire, upgrade: str) -> None:
    reply = wire.call("POST", "/", "Connection: Upgrade", f"Upgrade: {upgrade}", body=b"123")
    assert (reply.body, reply.headers["Connection"]) == (b"POST /? 3", "close")
    assert wire.closed()


def test_connect_opens_no_tunnel(wire: Wire) -> None:
    wire.send("CONNECT host:443 HTTP/1.1\r\nHost: host:443\r\n\r\nGET /inner HTTP/1.1\r\nHost: t\r\n\r\n")
    assert wire.read().headers["Connection"] == "close"
    assert wire.closed()


@pytest.mark.parametrize("method", ["BREW", "get", "X-1", "M" * 64, "UNKNOWN"])
def test_an_unknown_method_is_a_method(wire: Wire, method: str) -> None:
    reply = wire.call(method, "/pot?a=b", "X-Request-Id: mine", body=b"123")
    assert (reply.body, reply.headers["X-Request-Id"]) == (f"{method} /pot?a=b 3".encode(), "mine")
    assert wire.call("GET", "/next").body == b"GET /next? 0"


def test_an_unknown_method_with_a_broken_head_is_malformed(wire: Wire) -> None:
    assert wire.send("BREW / HTTP/1.1\r\nHost: t\r\nbad header\r\n\r\n").read().code == "invalid_request"
    assert wire.closed()


def test_unknown_methods_may_be_pipelined_among_others(wire: Wire) -> None:
    wire.send("BREW /a HTTP/1.1\r\nHost: t\r\n\r\nGET /b HTTP/1.1\r\nHost: t\r\n\r\n")
    assert [wire.read().body, wire.read().body] == [b"BREW /a? 0", b"GET /b? 0"]


def test_head_is_answered_without_a_body(wire: Wire) -> None:
    reply = wire.call("HEAD", "/x")
    assert reply.headers["Content-Length"] == str(len("HEAD /x? 0"))
    assert wire.call("GET", "/next").body == b"GET /next? 0"


def test_an_exception_is_internal_and_leaks_nothing(wire: Wire, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        reply = wire.call("GET", "/broken", "X-Request-Id: mine")
    assert (reply.status, reply.code) == (500, "internal")
    assert b"secret" not in reply.body
    [record] = [record for record in caplog.records if record.name == "edge.http.connection"]
    assert getattr(record, "request_id", None) == "mine"


def test_a_caller_that_disconnects_within_a_body_is_forgotten(echo: Echo) -> None:
    with Wire(echo.port) as wire:
        wire.send("POST /gone HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n\r\n12")
        wait_until(lambda: any(request.path == "/gone" for request in echo.seen))
    request = next(request for request in echo.seen if request.path == "/gone")
    wait_until(lambda: request.connection.lost)
    assert echo.http is not None
    wait_until(lambda: request.connection not in echo.http.callers if echo.http else False)


async def evict_overdue(http: HttpServer, timeouts: Timeouts) -> None:
    for connection in tuple(http.callers):
        connection.evict_if_overdue(asyncio.get_running_loop().time(), timeouts)


def test_slow_headers_are_cut_off_and_idle_connections_are_not(thread: LoopThread, echo: Echo) -> None:
    http = echo.http
    assert http is not None
    with Wire(echo.port) as slow, Wire(echo.port) as idle:
        assert idle.call("GET", "/").status == 200
        slow.send("GET / HTTP/1.1\r\nHos")
        wait_until(lambda: any(each.wait_kind is WaitKind.HEAD for each in http.callers))
        thread.run(evict_overdue(http, TIMEOUTS._replace(head=-1.0)))
        assert slow.closed()
        assert idle.call("GET", "/").status == 200


def test_a_caller_that_pipelines_and_does_not_read_is_evicted(echo: Echo) -> None:
    with Wire(echo.port) as wire:
        wire.send(b"GET /large HTTP/1.1\r\nHost: t\r\n\r\n" * 30)
        wait_until(lambda: any(request.path == "/large" for request in echo.seen))
        connection = next(request.connection for request in echo.seen if request.path == "/large")
        wait_until(lambda: connection.lost)
    assert sum(request.path == "/large" for request in echo.seen) < 30


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


def test_a_body_that_is_dropped_is_not_counted(echo: Echo, wire: Wire) -> None:
    assert echo.http is not None
    wire.send("POST /ignore HTTP/1.1\r\nHost: t\r\nContent-Length: 500000\r\n\r\n")
    assert wire.read().body == b"POST /ignore? 0"
    before = echo.http.buffers.held
    wire.send(b"x" * 400_000)
    assert echo.http.buffers.held <= before
    assert wire.send(b"x" * 100_000).call("GET", "/next").body == b"GET /next? 0"


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


@pytest.mark.parametrize(
    "module", [connection_module, framing_module, server_module], ids=lambda module: module.__name__
)
def test_only_public_parts_of_aiohttp_are_used(module: ModuleType) -> None:
    assert not private_names_of_aiohttp() & names_within(module)
