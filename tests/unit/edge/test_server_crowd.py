"""An edge with little memory for requests, and callers that use much of it."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from google.protobuf.message import Message

from contract.channel import Metadata
from edge.http.request import MAX_BODY_BYTES
from tests.support.poll import wait_until
from tests.unit.edge.conftest import Service
from tests.unit.edge.services import CALLER, CREDENTIALS, OUTPUTS, MemoryChannel, answering
from tests.unit.edge.wire import Reply, Wire
from workflow_api.v1.outputs_pb2 import DownloadHeader, GetOutputsZipResponse

CANCEL = "/api/v1/runs/run_1/cancel"
BUFFER_BYTES = 8_000_000
LARGE = b'{"reason": "' + b"x" * 500_000 + b'"}'


class Neighbour:
    """A connection whose request is being served and holds many bytes."""

    waiting_since = 0.0
    reserved_bytes = 0


@pytest.fixture(name="service", scope="module")
def _service(start: Callable[..., Service]) -> Service:
    return start(buffer_mb=BUFFER_BYTES // 1_000_000, connections=50)


@contextmanager
def held_by_another(service: Service, size: int) -> Iterator[None]:
    """Another connection holds so many bytes."""
    neighbour: Any = Neighbour()
    assert service.edge.http is not None
    buffers = service.edge.http.buffers

    async def take() -> None:
        buffers.reserve(neighbour, size)

    async def release() -> None:
        buffers.release(neighbour)

    service.thread.run(take())
    try:
        yield
    finally:
        service.thread.run(release())


@contextmanager
def later(service: Service, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every caller that keeps the edge waiting has done so for long."""
    assert service.edge.http
    with monkeypatch.context() as patch:
        patch.setattr(service.edge.http.buffers, "clock", lambda: float("inf"))
        yield


def post(wire: Wire, body: bytes, length: int) -> Wire:
    return wire.send(f"POST {CANCEL} HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n\r\n".encode() + body)


def test_a_large_body_is_refused_while_other_requests_hold_the_memory(service: Service) -> None:
    with held_by_another(service, BUFFER_BYTES), Wire(service.edge.port) as wire:
        reply = post(wire, LARGE, len(LARGE)).read()
        assert (reply.status, reply.code) == (502, "runtime_unreachable")
        assert reply.headers["Connection"] == "close"
    assert service.call("POST", CANCEL, body=LARGE).status == 401


def test_a_small_request_is_always_served(service: Service) -> None:
    with held_by_another(service, BUFFER_BYTES):
        assert service.call("POST", CANCEL, body=b'{"reason": "small"}').status == 401
        assert service.call("GET", "/api/v1/health").status == 200


def test_a_slow_body_is_refused_when_its_memory_is_needed(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    with Wire(service.edge.port) as wire:
        post(wire, LARGE[:300_000], len(LARGE))
        wait_until(lambda: service.edge.http is not None and service.edge.http.buffers.reserved_bytes >= 300_000)
        with later(service, monkeypatch), held_by_another(service, BUFFER_BYTES):
            reply = wire.read()
        assert reply.json["error"]["details"] == [{"name": "body", "reason": "did not arrive in time"}]


def test_slow_headers_are_cut_off_for_their_memory(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    with Wire(service.edge.port) as wire:
        wire.send(b"GET / HTTP/1.1\r\nX: " + b"x" * 20_000)
        wait_until(lambda: service.edge.http is not None and service.edge.http.buffers.reserved_bytes >= 40_000)
        with later(service, monkeypatch), held_by_another(service, BUFFER_BYTES):
            assert wire.closed()


def test_a_caller_that_does_not_read_is_evicted_when_its_memory_is_needed(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Wire(service.edge.port) as wire:
        wire.send(b"GET /openapi.json HTTP/1.1\r\nHost: test\r\n\r\n" * 100)
        wait_until(lambda: service.edge.http is not None and service.edge.http.buffers.reserved_bytes > 65_536)
        with later(service, monkeypatch), held_by_another(service, BUFFER_BYTES):
            wait_until(lambda: service.edge.http is not None and not service.edge.http.callers)


def test_a_download_holds_memory_until_it_ends(service: Service) -> None:
    messages: list[Message] = [
        GetOutputsZipResponse(header=DownloadHeader(media_type="application/zip", length=3)),
        GetOutputsZipResponse(data=b"abc"),
    ]
    service.channel.streams[OUTPUTS + "GetOutputsZip"] = answering(messages)

    def download() -> Reply:
        reply: Reply = service.call("GET", "/api/v1/runs/run_1/outputs.zip", *CREDENTIALS)
        return reply

    assert download().body == b"abc"
    with held_by_another(service, BUFFER_BYTES - 1_000_000):
        reply = download()
        assert (reply.status, reply.code) == (502, "runtime_unreachable")
    assert download().body == b"abc"
    assert len(service.channel.closed_streams) >= 3


def test_a_new_connection_replaces_one_that_keeps_the_edge_waiting(service: Service) -> None:
    wires = [Wire(service.edge.port) for _ in range(200)]
    try:
        assert service.call("GET", "/api/v1/health").status == 200
        assert wires[-1].call("GET", "/api/v1/health").status == 200
        assert wires[0].closed()
    finally:
        for wire in wires:
            wire.socket.close()


def test_requests_being_served_are_not_cut_off_for_a_new_connection(start: Callable[..., Service]) -> None:
    let_go = asyncio.Event()

    class SlowChannel(MemoryChannel):
        async def unary(self, rpc: str, request: Message, metadata: Metadata, seconds: float) -> Message:
            if rpc == CALLER + "GetMe":
                await let_go.wait()
            return await super().unary(rpc, request, metadata, seconds)

    service = start(SlowChannel(), connections=2)
    with Wire(service.edge.port) as one, Wire(service.edge.port) as other:
        for wire in (one, other):
            wire.send("\r\n".join(["GET /api/v1/me HTTP/1.1", "Host: test", *CREDENTIALS]) + "\r\n\r\n")
        wait_until(lambda: service.edge.http is not None and sum(each.busy for each in service.edge.http.callers) == 2)
        with Wire(service.edge.port) as newcomer:
            assert newcomer.closed()
        service.thread.loop.call_soon_threadsafe(let_go.set)
        assert [one.read().status, other.read().status] == [200, 200]
    assert service.call("GET", "/api/v1/health").status == 200


def test_nothing_is_held_after_all_have_disconnected(service: Service) -> None:
    def left() -> int:
        assert service.edge.http
        return service.edge.http.buffers.reserved_bytes + len(service.edge.http.callers)

    for body in (LARGE, b"{", b"x" * MAX_BODY_BYTES, b""):
        with Wire(service.edge.port) as wire:
            post(wire, body, max(len(body), 9)).send(b"")
    wait_until(lambda: left() == 0)
