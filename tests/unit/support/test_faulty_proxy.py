"""A proxy that spoils what passes, in front of a server that greets whoever connects."""

import http.client
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.support import faulty_proxy
from tests.support.faulty_proxy import FaultMode, FaultyProxy

BODY = b"hello" * 100


class _Greeting(BaseHTTPRequestHandler):
    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass


@pytest.fixture
def proxy() -> Iterator[FaultyProxy]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Greeting)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    with FaultyProxy(lambda: server.server_port) as proxy:
        yield proxy
    server.shutdown()
    thread.join()
    server.server_close()


def asked(proxy: FaultyProxy, seconds: float = 60) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=seconds)
    try:
        connection.request("PUT", "/", body=b"x" * 1000)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_what_is_not_spoiled_passes_whole(proxy: FaultyProxy) -> None:
    assert asked(proxy) == (200, BODY)


def test_what_comes_late_comes_whole(proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faulty_proxy, "LATEST_SECONDS", 0.1)
    proxy.spoil(FaultMode.LATE)
    assert asked(proxy) == (200, BODY)


@pytest.mark.parametrize("status", [500, 503])
def test_an_error_is_answered_in_place_of_the_store(proxy: FaultyProxy, status: int) -> None:
    proxy.spoil(FaultMode(str(status)))
    assert asked(proxy)[0] == status
    proxy.spoil(FaultMode.NOTHING)
    assert asked(proxy) == (200, BODY)


@pytest.mark.parametrize("mode", [FaultMode.REFUSED, FaultMode.CUT])
def test_a_connection_that_is_refused_or_cut_brings_no_whole_answer(proxy: FaultyProxy, mode: FaultMode) -> None:
    proxy.spoil(mode)
    for _ in range(10):
        with pytest.raises((OSError, http.client.HTTPException)):
            asked(proxy)


def test_a_silent_connection_brings_nothing(proxy: FaultyProxy) -> None:
    proxy.spoil(FaultMode.SILENT)
    with pytest.raises(TimeoutError):
        asked(proxy, seconds=0.2)


def test_one_connection_is_cut_where_it_is_told(proxy: FaultyProxy) -> None:
    proxy.cut_one(1, passing=len(BODY))
    assert asked(proxy) == (200, BODY)
    with pytest.raises(http.client.IncompleteRead):
        asked(proxy)
    assert asked(proxy) == (200, BODY)
