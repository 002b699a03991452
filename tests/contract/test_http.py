"""Properties of every answer: headers, envelope, request ids. (contract 6, 7)"""

import re
from collections.abc import Callable

import pytest

from tests.support.client import Caller
from tests.support.expect import invalid
from tests.support.service import Service
from tests.support.wire import Answer, Wire, exchange, request

CLOSE = ("Connection", "close")
Ask = Callable[[Caller], Answer]


def raw(data: bytes) -> Ask:
    return lambda caller: exchange(caller.address, data)


# One call of every kind of answer.
KINDS: dict[str, Ask] = {
    "200": lambda caller: caller.get("/me"),
    "health": lambda caller: caller.get("/health"),
    "400": lambda caller: caller.get("/runs?limit=0"),
    "400 malformed": lambda caller: caller.call("POST", "/runs/x/cancel", body=b"{"),
    "400 filter": lambda caller: caller.get("/runs?status=x"),
    "401": raw(request("GET", "/me", CLOSE)),
    "404 path": lambda caller: caller.get("/nowhere"),
    "404 run": lambda caller: caller.get("/runs/none"),
    "405": lambda caller: caller.call("PUT", "/me"),
    "413": raw(request("POST", "/runs/x/cancel", ("Content-Length", "2097152"))),
}
REFUSALS = [kind for kind in KINDS if kind not in {"200", "health"}]


@pytest.mark.parametrize("kind", KINDS)
def test_every_answer_carries_the_common_headers(resident: Caller, kind: str) -> None:
    answer = KINDS[kind](resident)
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert re.fullmatch(r"[A-Za-z0-9._:-]{1,128}", answer.headers["X-Request-Id"])
    assert answer.headers["Content-Type"].split(";")[0] == "application/json"


@pytest.mark.parametrize("kind", REFUSALS)
def test_every_error_body_is_the_envelope(resident: Caller, kind: str) -> None:
    answer = KINDS[kind](resident)
    assert set(answer.json()) == {"error"}
    assert set(answer.error) - {"details"} == {"code", "message", "request_id"}
    assert answer.error["message"]
    assert answer.error["request_id"] == answer.headers["X-Request-Id"]


FITTING_IDS = ("a", "A-z.0_9:x", "x" * 128)
UNFIT_IDS = ("", "x" * 129, "a b", "é", "a/b", "a,b", "<x>")


@pytest.mark.parametrize("request_id", FITTING_IDS)
@pytest.mark.parametrize("path", ["/me", "/nowhere", "/runs/none"])
def test_a_fitting_request_id_is_echoed(resident: Caller, path: str, request_id: str) -> None:
    answer = resident.get(path, headers={"X-Request-Id": request_id})
    assert answer.headers.get_all("X-Request-Id") == [request_id]
    if answer.status >= 400:
        assert answer.error["request_id"] == request_id


@pytest.mark.parametrize("request_id", UNFIT_IDS)
def test_a_request_id_that_does_not_fit_is_replaced(resident: Caller, request_id: str) -> None:
    head = request("GET", "/nowhere", ("X-Request-Id", request_id), CLOSE)
    answer = exchange(resident.address, head)
    assert answer.headers["X-Request-Id"] not in {request_id, ""}
    assert answer.error["request_id"] == answer.headers["X-Request-Id"]


def test_a_repeated_request_id_is_as_if_absent(resident: Caller) -> None:
    head = request("GET", "/nowhere", ("X-Request-Id", "one"), ("X-Request-Id", "one"), CLOSE)
    assert exchange(resident.address, head).headers["X-Request-Id"] != "one"


def test_request_ids_that_are_made_differ(resident: Caller) -> None:
    made = {resident.get("/me").headers["X-Request-Id"] for _ in range(20)}
    assert len(made) == 20


def test_a_413_and_a_malformed_body_echo_the_request_id(service: Service) -> None:
    header = ("X-Request-Id", "mine")
    large = request("POST", "/runs/x/cancel", header, ("Content-Length", "2097152"))
    malformed = request("POST", "/runs/x/cancel", header, ("Content-Length", "1"), CLOSE, body=b"{")
    for data in (large, malformed):
        answer = exchange(service.address, data)
        assert answer.headers["X-Request-Id"] == answer.error["request_id"] == "mine"


REFUSED_BY_THE_PARSER = {
    "no HTTP": b"HELLO\r\n\r\n",
    "an unknown version": b"GET /api/v1/me HTTP/9.9\r\nHost: x\r\n\r\n",
    "a control character in the path": b"GET /api/v1/\x01 HTTP/1.1\r\nHost: x\r\n\r\n",
    "a blank in a header name": b"GET /api/v1/me HTTP/1.1\r\nHost: x\r\nX Y: 1\r\n\r\n",
    "a header without a colon": b"GET /api/v1/me HTTP/1.1\r\nHost: x\r\nnothing\r\n\r\n",
    "a bad length": b"POST /api/v1/runs/x/cancel HTTP/1.1\r\nHost: x\r\nContent-Length: ten\r\n\r\n",
    "a negative length": b"POST /api/v1/runs/x/cancel HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    "two lengths": (
        b"POST /api/v1/runs/x/cancel HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}"
    ),
    "length and chunks": (
        b"POST /api/v1/runs/x/cancel HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"0\r\n\r\n"
    ),
    "a bad chunk": (
        b"POST /api/v1/runs/x/cancel HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n"
    ),
    "a path beyond all bounds": b"GET /api/v1/" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "a header beyond all bounds": b"GET /api/v1/me HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * 70_000 + b"\r\n\r\n",
}


@pytest.mark.parametrize("what", REFUSED_BY_THE_PARSER)
def test_refusals_of_the_parser_are_envelopes(service: Service, what: str) -> None:
    answer = exchange(service.address, REFUSED_BY_THE_PARSER[what])
    assert 400 <= answer.status < 500, answer
    assert answer.code == "invalid_request", answer
    assert answer.error["request_id"] == answer.headers["X-Request-Id"]
    assert answer.headers["Cache-Control"] == "no-store"


def test_the_service_keeps_serving_after_the_parser_refused(service: Service) -> None:
    for data in REFUSED_BY_THE_PARSER.values():
        with Wire(service.address) as wire:
            wire.send(data[:200])
    assert service.call("GET", "/health").status == 200


def test_a_request_line_and_headers_of_31_kib_are_accepted(resident: Caller) -> None:
    padding = "x" * (31 << 10)
    assert resident.get(f"/me?padding={padding[:-600]}").status == 200
    assert resident.get("/me", headers={"X-Padding": padding[:-600]}).status == 200


def test_a_connection_serves_several_calls(resident: Caller) -> None:
    ask = request("GET", "/me", *resident.credential_headers)
    malformed = request("POST", "/runs/x/cancel", ("Content-Length", "1"), body=b"{")
    with Wire(resident.address) as wire:
        for data, status in ((ask, 200), (malformed, 400), (ask, 200)):
            wire.send(data)
            assert wire.answer().status == status


def test_http_1_0_is_answered(resident: Caller) -> None:
    lines = [f"{name}: {value}" for name, value in resident.credentials.items()]
    data = "\r\n".join(["GET /api/v1/me HTTP/1.0", *lines, "", ""]).encode()
    assert exchange(resident.address, data).status == 200


def test_headers_with_bytes_beyond_ascii_are_handled(resident: Caller) -> None:
    odd = ("X-Odd", b"\xff\xfe\xe9")
    for name in ("X-Odd", "User-Agent", "Cookie", "Accept", "If-None-Match", "Range", "Content-Type"):
        data = request("GET", "/me", *resident.credential_headers, (name, odd[1]), CLOSE)
        assert exchange(resident.address, data).status == 200


BEGIN = b"GET / HTTP/1.1\r\nHost: t\r\n"
HEADS = {
    "target": (b"GET /" + b"a" * 32_768 + b" HTTP/1.1\r\nHost: t\r\n\r\n", "a target of at most 32,768 bytes"),
    "header": (BEGIN + b"X: " + b"a" * 32_768 + b"\r\n\r\n", "headers of at most 32,768 bytes each"),
    "headers": (BEGIN + b"X: y\r\n" * 9_000 + b"\r\n", "at most 8,192 headers"),
    "head": (BEGIN + b"X: yyyyyyyyyyyyyyyy\r\n" * 4_000 + b"\r\n", "at most 65,536 bytes together"),
}


@pytest.mark.parametrize("what", HEADS)
def test_a_head_beyond_a_bound_is_refused_with_the_bound(service: Service, what: str) -> None:
    head, bound = HEADS[what]
    answer = exchange(service.address, head)
    [reason] = invalid(answer, "request")
    assert bound in reason
