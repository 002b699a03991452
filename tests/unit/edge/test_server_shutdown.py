import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from google.protobuf.message import Message

from contract.channel import Metadata
from tests.support.poll import wait_until
from tests.unit.edge.conftest import Service
from tests.unit.edge.services import CALLER, CREDENTIALS, OUTPUTS, MemoryChannel
from tests.unit.edge.wire import Wire
from workflow_api.v1.outputs_pb2 import DownloadHeader, GetOutputsZipResponse

Start = Callable[..., Service]


class SlowChannel(MemoryChannel):
    """Answers GetMe once `let_go` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.let_go = asyncio.Event()

    async def unary(self, rpc: str, request: Message, metadata: Metadata, seconds: float) -> Message:
        answer = await super().unary(rpc, request, metadata, seconds)
        if rpc == CALLER + "GetMe":
            await self.let_go.wait()
        return answer


def ask(wire: Wire, path: str) -> None:
    wire.send("\r\n".join([f"GET {path} HTTP/1.1", "Host: test", *CREDENTIALS]) + "\r\n\r\n")


def test_a_call_under_way_is_answered_before_the_stop(start: Start) -> None:
    channel = SlowChannel()
    service = start(channel)
    with Wire(service.edge.port) as busy, Wire(service.edge.port) as idle:
        assert idle.call("GET", "/api/v1/health").status == 200
        ask(busy, "/api/v1/me")
        wait_until(lambda: bool(channel.called(CALLER + "GetMe")))
        stopping = service.thread.submit(service.edge.stop())
        assert idle.closed()
        service.thread.loop.call_soon_threadsafe(channel.let_go.set)
        reply = busy.read()
        assert (reply.status, reply.headers["Connection"]) == (200, "close")
        assert busy.closed()
        stopping.result(60)
    assert [record.route for record in channel.usage] == ["/me"]


def test_a_call_whose_caller_has_disconnected_is_finished_before_the_stop(start: Start) -> None:
    channel = SlowChannel()
    service = start(channel)
    http = service.edge.http
    assert http is not None
    with Wire(service.edge.port) as wire:
        ask(wire, "/api/v1/me")
        wait_until(lambda: bool(channel.called(CALLER + "GetMe")))
        wire.reset()
    wait_until(lambda: not http.limiter.connections)
    stopping = service.thread.submit(service.edge.stop())
    wait_until(lambda: http.stopping)
    service.thread.loop.call_soon_threadsafe(channel.let_go.set)
    stopping.result(10)
    assert [record.status for record in channel.usage] == [200]


def test_a_body_under_way_is_read_to_its_end_before_the_stop(start: Start) -> None:
    service = start()
    with Wire(service.edge.port) as wire:
        wire.send("POST /api/v1/runs/run_1/cancel HTTP/1.1\r\nHost: test\r\nContent-Length: 20\r\n\r\n{")
        wait_until(lambda: service.edge.http is not None and any(each.busy for each in service.edge.http.callers))
        stopping = service.thread.submit(service.edge.stop())
        wait_until(lambda: service.edge.http is not None and service.edge.http.stopping)
        reply = wire.send(b"}" + b" " * 18).read()
        assert (reply.status, reply.headers["Connection"]) == (401, "close")
        stopping.result(60)


def test_callers_that_have_just_connected_are_answered_before_the_stop(start: Start) -> None:
    service = start()
    wires = [Wire(service.edge.port) for _ in range(50)]
    stopping = service.thread.submit(service.edge.stop())
    wait_until(lambda: service.edge.http is not None and service.edge.http.stopping)
    for wire in wires:
        with wire:
            assert wire.call("GET", "/api/v1/health").headers["Connection"] == "close"
    stopping.result(60)


def test_callers_who_keep_their_connection_are_told_to_leave_with_their_next_answer(start: Start) -> None:
    service = start()
    wires = [Wire(service.edge.port) for _ in range(50)]
    for wire in wires:
        assert "Connection" not in wire.call("GET", "/api/v1/health").headers
    stopping = service.thread.submit(service.edge.stop())
    wait_until(lambda: service.edge.http is not None and service.edge.http.stopping)
    for wire in wires:
        with wire:
            assert wire.call("GET", "/api/v1/health").headers["Connection"] == "close"
            assert wire.closed()
    stopping.result(60)


def test_a_stop_without_a_drain_time_waits_for_no_request(start: Start) -> None:
    channel = SlowChannel()
    service = start(channel, drain_seconds=0)
    with Wire(service.edge.port) as busy:
        ask(busy, "/api/v1/me")
        wait_until(lambda: bool(channel.called(CALLER + "GetMe")))
        service.thread.run(service.edge.stop())
        assert busy.closed()


def test_no_connection_is_accepted_after_the_stop(start: Start) -> None:
    service = start()
    service.thread.run(service.edge.stop())
    try:
        Wire(service.edge.port).socket.close()
    except ConnectionRefusedError:
        return
    raise AssertionError("the edge still listens")


def test_an_endless_download_is_cut_off_after_the_drain_time(start: Start) -> None:
    async def endless(_: Any) -> AsyncIterator[Message]:
        yield GetOutputsZipResponse(header=DownloadHeader(media_type="application/zip", length=10**12))
        while True:
            yield GetOutputsZipResponse(data=b"x" * 1000)
            await asyncio.sleep(0.001)

    service = start(drain_seconds=0.1)
    service.channel.streams[OUTPUTS + "GetOutputsZip"] = endless
    with Wire(service.edge.port) as wire:
        ask(wire, "/api/v1/runs/run_1/outputs.zip")
        assert wire.socket.recv(1000)
        service.thread.run(service.edge.stop())
        assert OUTPUTS + "GetOutputsZip" in service.channel.closed_streams
