import asyncio
import logging
import socket
from types import ModuleType

import pytest

from contract.connections import Timeouts, WaitKind
from edge.http import connection as connection_module
from edge.http import framing as framing_module
from edge.http import server as server_module
from edge.http.framing import MAX_HEAD_BYTES, MAX_LINE_BYTES
from edge.http.server import HttpServer
from tests.support.aiohttp_names import names_within, private_names_of_aiohttp
from tests.support.loop_thread import LoopThread
from tests.support.poll import LONGEST_WAIT_SECONDS, wait_until
from tests.unit.edge.http.conftest import TIMEOUTS, Echo
from tests.unit.edge.wire import Reply, Wire


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


@pytest.mark.parametrize(
    "module", [connection_module, framing_module, server_module], ids=lambda module: module.__name__
)
def test_only_public_parts_of_aiohttp_are_used(module: ModuleType) -> None:
    assert not private_names_of_aiohttp() & names_within(module)
