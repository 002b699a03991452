"""The bound on bodies: checked first, and answered even to callers that still send. (contract 4.4 to 4.6)"""

import json

import pytest

from tests.support.client import Caller
from tests.support.expect import invalid, refused
from tests.support.routes import ROUTES, Route
from tests.support.service import Service
from tests.support.wire import Wire, exchange, request

MIB = 1 << 20
START = "/workflows/wf_none/runs"


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_two_mebibytes_are_refused_from_the_length_alone_before_the_key(service: Service, route: Route) -> None:
    """Not one byte of the body is sent."""
    answer = exchange(service.address, request(route.method, route.path(), ("Content-Length", str(2 * MIB))))
    refused(answer, 413, "payload_too_large")


@pytest.mark.parametrize("length", [2**63, 2**64 - 1, 2**64, 10**30])
def test_a_length_beyond_any_integer_type_is_refused_too(service: Service, length: int) -> None:
    refused(
        exchange(service.address, request("POST", START, ("Content-Length", str(length)))), 413, "payload_too_large"
    )


def test_a_path_that_does_not_exist_does_not_hide_the_size(service: Service) -> None:
    for method, path in (("POST", "/nowhere"), ("PUT", "/me"), ("OPTIONS", "/me")):
        answer = exchange(service.address, request(method, path, ("Content-Length", str(MIB + 1))))
        refused(answer, 413, "payload_too_large")


@pytest.mark.parametrize(
    ("method", "path"), [("POST", START), ("POST", "/nowhere"), ("GET", "/me"), ("PUT", "/me"), ("GET", "/health")]
)
def test_a_chunked_body_is_refused_as_soon_as_it_passes_the_bound(service: Service, method: str, path: str) -> None:
    with Wire(service.address) as wire:
        wire.send(request(method, path, ("Transfer-Encoding", "chunked")))
        for _ in range(17):
            wire.send(chunk(b"x" * 65536))
        # The body has no end yet.
        refused(wire.answer(), 413, "payload_too_large")


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_a_caller_that_sends_the_whole_body_still_gets_the_answer(service: Service, framing: str) -> None:
    size = 4 * MIB
    header = ("Content-Length", str(size)) if framing == "length" else ("Transfer-Encoding", "chunked")
    piece = b"x" * 65536
    with Wire(service.address) as wire:
        wire.send(request("POST", START, header))
        for _ in range(size // len(piece)):
            wire.send(piece if framing == "length" else chunk(piece))
        if framing == "chunked":
            wire.send(b"0\r\n\r\n")
        refused(wire.answer(), 413, "payload_too_large")


def test_a_body_of_exactly_one_mebibyte_fits(service: Service) -> None:
    body = b'{"input_text": "' + b" " * (MIB - 18) + b'"}'
    assert len(body) == MIB
    refused(service.call("POST", START, body=body), 401, "unauthorized")
    refused(service.call("POST", START, body=body + b" "), 413, "payload_too_large")


def test_a_chunked_body_of_exactly_one_mebibyte_fits(service: Service) -> None:
    head = request("POST", START, ("Transfer-Encoding", "chunked"), ("Connection", "close"))
    body = b"{" + b" " * (MIB - 2) + b"}"
    refused(exchange(service.address, head + chunk(body) + b"0\r\n\r\n"), 401, "unauthorized")


def test_a_body_too_large_gets_no_100_continue(service: Service) -> None:
    head = request("POST", START, ("Content-Length", str(2 * MIB)), ("Expect", "100-continue"))
    refused(exchange(service.address, head), 413, "payload_too_large")


def test_a_body_that_fits_gets_its_100_continue_at_once(resident: Caller) -> None:
    body = json.dumps({"labels": "none"}).encode()
    head = request(
        "POST",
        START,
        *resident.credential_headers,
        ("Idempotency-Key", "k"),
        ("Content-Length", str(len(body))),
        ("Expect", "100-continue"),
    )
    with Wire(resident.address) as wire:
        wire.send(head)
        assert wire.interim().startswith(b"HTTP/1.1 100 Continue\r\n")
        wire.send(body)
        invalid(wire.answer(), "labels")


def test_a_chunked_body_gets_its_100_continue_and_is_still_bounded(service: Service) -> None:
    with Wire(service.address) as wire:
        wire.send(request("POST", START, ("Transfer-Encoding", "chunked"), ("Expect", "100-continue")))
        assert wire.interim().startswith(b"HTTP/1.1 100 Continue\r\n")
        for _ in range(17):
            wire.send(chunk(b"x" * 65536))
        refused(wire.answer(), 413, "payload_too_large")
