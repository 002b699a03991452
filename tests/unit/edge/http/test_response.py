import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest
from google.protobuf.message import Message

from contract.connections import WaitKind
from contract.refusals import Refusal
from edge.http.connection import Connection
from tests.support.poll import wait_until
from tests.unit.edge.conftest import Service
from tests.unit.edge.services import CREDENTIALS, OUTPUTS, answering
from tests.unit.edge.wire import Reply, Wire
from workflow_api.v1.outputs_pb2 import (
    ByteRange,
    DownloadHeader,
    GetOutputContentRequest,
    GetOutputContentResponse,
    GetOutputsZipRequest,
    GetOutputsZipResponse,
)

Start = Callable[..., Service]
CONTENT = OUTPUTS + "GetOutputContent"
ZIP = OUTPUTS + "GetOutputsZip"
PATH = "/api/v1/runs/run_1/outputs/out_1/content"
PIECE = b"x" * 262_144


def content(data: Sequence[bytes], **header: Any) -> list[GetOutputContentResponse]:
    size = sum(map(len, data))
    fields = {"media_type": "text/plain", "file_name": "a.txt", "size_bytes": size, "length": size, "etag": "e" * 64}
    first = GetOutputContentResponse(header=DownloadHeader(**{**fields, **header}))
    return [first, *(GetOutputContentResponse(data=part) for part in data)]


@pytest.fixture(name="service")
def _service(start: Start) -> Service:
    return start()


def fetch(service: Service, messages: Sequence[Message], *headers: str) -> Reply:
    service.channel.streams[CONTENT] = answering(messages)
    reply: Reply = service.call("GET", PATH, *CREDENTIALS, *headers)
    return reply


def test_the_whole_file_comes_with_every_header(service: Service) -> None:
    reply = fetch(service, content([b"hello ", b"world"]))
    assert (reply.status, reply.body) == (200, b"hello world")
    assert reply.headers["Content-Type"] == "text/plain"
    assert reply.headers["Content-Length"] == "11"
    assert reply.headers["Content-Disposition"] == "attachment; filename=\"a.txt\"; filename*=UTF-8''a.txt"
    assert reply.headers["ETag"] == f'"{"e" * 64}"'
    assert reply.headers["Accept-Ranges"] == "bytes"
    assert reply.headers["Cache-Control"] == "no-store"


def test_a_range_is_forwarded_and_answered_206(service: Service) -> None:
    messages = content([b"llo"], partial=True, offset=2, length=3, size_bytes=11)
    reply = fetch(service, messages, "Range: bytes=2-4", 'If-Range: "abc"', 'If-None-Match: "x", W/"y"')
    assert (reply.status, reply.body, reply.headers["Content-Range"]) == (206, b"llo", "bytes 2-4/11")
    [asked] = service.channel.called(CONTENT)
    assert asked == GetOutputContentRequest(
        run_id="run_1",
        output_id="out_1",
        range=ByteRange(first=2, last=4),
        if_range="abc",
        if_none_match=["x", "y"],
    )


def test_what_the_caller_has_already_is_304_without_a_body(service: Service) -> None:
    reply = fetch(service, content([], not_modified=True))
    assert (reply.status, reply.body, reply.headers["ETag"]) == (304, b"", f'"{"e" * 64}"')
    assert "Content-Length" not in reply.headers


def test_an_empty_file_is_an_empty_body(service: Service) -> None:
    reply = fetch(service, content([]))
    assert (reply.status, reply.headers["Content-Length"]) == (200, "0")


def test_a_range_of_the_zip_is_forwarded_and_answered_206(service: Service) -> None:
    header = DownloadHeader(
        media_type="application/zip", file_name="z", size_bytes=9, offset=5, length=4, partial=True, etag="abc"
    )
    service.channel.streams[ZIP] = answering(
        [GetOutputsZipResponse(header=header), GetOutputsZipResponse(data=b"PK..")]
    )
    conditions = ("Range: bytes=5-", 'If-Range: "abc"', 'If-None-Match: "x"')
    reply = service.call("GET", "/api/v1/runs/run_1/outputs.zip", *CREDENTIALS, *conditions)
    assert (reply.status, reply.body, reply.headers["Content-Range"]) == (206, b"PK..", "bytes 5-8/9")
    assert (reply.headers["ETag"], reply.headers["Accept-Ranges"]) == ('"abc"', "bytes")
    [asked] = service.channel.called(ZIP)
    assert asked == GetOutputsZipRequest(run_id="run_1", range=ByteRange(first=5), if_range="abc", if_none_match=["x"])


def test_a_zip_of_an_earlier_backend_has_neither_tag_nor_ranges(service: Service) -> None:
    header = DownloadHeader(media_type="application/zip", file_name="run_1.zip", size_bytes=4, length=4)
    service.channel.streams[ZIP] = answering(
        [GetOutputsZipResponse(header=header), GetOutputsZipResponse(data=b"PK..")]
    )
    reply = service.call("GET", "/api/v1/runs/run_1/outputs.zip", *CREDENTIALS, "Range: bytes=0-0")
    assert (reply.status, reply.body, reply.headers["Content-Type"]) == (200, b"PK..", "application/zip")
    assert not {"ETag", "Accept-Ranges", "Content-Range"} & set(reply.headers)


def test_the_connection_is_kept_after_a_download(service: Service) -> None:
    service.channel.streams[CONTENT] = answering(content([b"abc"]))
    with Wire(service.edge.port) as wire:
        assert wire.call("GET", PATH, *CREDENTIALS).body == b"abc"
        assert wire.call("GET", PATH, *CREDENTIALS).body == b"abc"


def refused_with(code: str, **data: Any) -> Callable[[Any], AsyncIterator[Message]]:
    async def stream(_: Any) -> AsyncIterator[Message]:
        for message in content([b"abc"])[:0]:
            yield message
        raise Refusal(code, **data)

    return stream


def test_a_refusal_before_the_first_message_is_the_envelope(service: Service) -> None:
    headers = {"Content-Range": "bytes */11"}
    service.channel.streams[CONTENT] = refused_with("range_not_satisfiable", headers=headers)
    reply = service.call("GET", PATH, *CREDENTIALS, "Range: bytes=-0")
    assert (reply.status, reply.code) == (416, "range_not_satisfiable")
    assert reply.headers["Content-Range"] == "bytes */11"
    assert reply.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    "messages", [[], content([b"abc"])[1:], [GetOutputContentResponse()]], ids=["none", "data", ""]
)
def test_a_download_without_a_header_is_a_runtime_error(service: Service, messages: list[Message]) -> None:
    assert fetch(service, messages).code == "runtime_error"


async def _breaks(_: Any) -> AsyncIterator[Message]:
    first, *_ = content([b"abc", b"def"])
    yield first
    yield GetOutputContentResponse(data=b"abc")
    raise Refusal("internal")


@pytest.mark.parametrize(
    "stream",
    [_breaks, answering(content([b"abc"], length=6)), answering(content([b"abcdefghi"], length=6))],
    ids=["an error", "too few bytes", "too many bytes"],
)
def test_an_error_within_a_download_resets_the_connection(
    service: Service, stream: Callable[[Any], AsyncIterator[Message]]
) -> None:
    service.channel.streams[CONTENT] = stream
    with pytest.raises(ConnectionError):
        service.call("GET", PATH, *CREDENTIALS)
    wait_until(lambda: CONTENT in service.channel.closed_streams)


class Endless:
    """A download that never ends by itself."""

    def __init__(self) -> None:
        self.sent = 0

    async def __call__(self, _: Any) -> AsyncIterator[Message]:
        yield content([], length=10**12)[0]
        while True:
            self.sent += 1
            yield GetOutputContentResponse(data=PIECE)
            await asyncio.sleep(0)


async def rounds(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


def begin(wire: Wire) -> None:
    lines = [f"GET {PATH} HTTP/1.1", "Host: test", *CREDENTIALS]
    wire.send("\r\n".join(lines) + "\r\n\r\n")


def connections(service: Service) -> tuple[Connection, ...]:
    assert service.edge.http is not None
    return tuple(service.edge.http.callers)


def test_a_slow_reader_pauses_the_download(service: Service) -> None:
    endless = service.channel.streams[CONTENT] = Endless()
    with Wire(service.edge.port) as wire:
        begin(wire)
        wait_until(lambda: any(each.wait_kind is WaitKind.READER for each in connections(service)))
        # The kernel buffers a few megabytes at most on both sides.
        assert endless.sent < 100


def test_a_caller_that_disconnects_ends_the_backends_stream(service: Service) -> None:
    service.channel.streams[CONTENT] = Endless()
    with Wire(service.edge.port) as wire:
        begin(wire)
        wire.socket.recv(1000)
    wait_until(lambda: CONTENT in service.channel.closed_streams)


def test_a_caller_that_resets_its_connection_while_nothing_is_sent_ends_the_stream(service: Service) -> None:
    async def stalls(_: Any) -> AsyncIterator[Message]:
        yield content([], length=10)[0]
        await asyncio.sleep(3600)

    service.channel.streams[CONTENT] = stalls
    with Wire(service.edge.port) as wire:
        begin(wire)
        wire.socket.recv(1000)
        wire.reset()
    wait_until(lambda: CONTENT in service.channel.closed_streams)


def test_a_caller_that_does_not_read_is_evicted(start: Start) -> None:
    service = start(stall_seconds=0.05)
    service.channel.streams[CONTENT] = Endless()
    with Wire(service.edge.port) as wire:
        begin(wire)
        wait_until(lambda: CONTENT in service.channel.closed_streams)


@pytest.mark.parametrize("media_type", ["", "text/plain\r\nX: y", "text/é", " "])
def test_a_media_type_that_is_no_header_is_sent_as_bytes(service: Service, media_type: str) -> None:
    assert fetch(service, content([b"a"], media_type=media_type)).headers["Content-Type"] == "application/octet-stream"
