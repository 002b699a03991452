"""Events as a stream. (contract 17.15 to 17.18)"""

from collections.abc import Callable
from contextlib import suppress

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from tests.unit.edge.services import CREDENTIALS, mirror
from tests.unit.edge.waiting.conftest import PATH, HeldCalls
from tests.unit.edge.wire import Wire
from workflow_api.v1.runs_pb2 import RUN_STATUS_COMPLETED, Event

NewHeld = Callable[..., HeldCalls]
ACCEPT = "Accept: text/event-stream"


def event(seq: int, data: str = "{}") -> Event:
    return Event(seq=seq, type="step.progress", at=Timestamp(seconds=1), step="s", data=data)


def all_of(wire: Wire) -> bytes:
    """What the edge sends until it closes the connection."""
    received = b""
    while part := wire.socket.recv(65_536):
        received += part
    return received


def whole(world: HeldCalls, version: str = "1.1") -> bytes:
    with Wire(world.service.edge.port) as wire:
        lines = [f"GET {PATH}/events HTTP/{version}", "Host: test", "Connection: close", ACCEPT, *CREDENTIALS]
        wire.send("\r\n".join(lines) + "\r\n\r\n")
        return all_of(wire)


def test_a_caller_without_chunks_gets_the_events_until_the_connection_ends(held: NewHeld) -> None:
    world = held()
    world.change(RUN_STATUS_COMPLETED, event(1))
    head, _, body = whole(world, "1.0").partition(b"\r\n\r\n")
    assert b"Transfer-Encoding" not in head
    assert b"Connection: close" in head
    assert body == (
        b"retry: 1000\n\n"
        b'id: seg_1:1\ndata: {"seq":1,"type":"step.progress","at":"1970-01-01T00:00:01.000+00:00","step":"s","data":{}}'
        b'\n\nevent: end\ndata: {"run_id":"run_1","status":"completed"}\n\n'
    )


def test_a_stream_ends_with_its_last_chunk(held: NewHeld) -> None:
    world = held()
    world.change(RUN_STATUS_COMPLETED)
    head, _, body = whole(world).partition(b"\r\n\r\n")
    assert b"\r\nTransfer-Encoding: chunked" in head
    assert body.endswith(b"\r\n0\r\n\r\n")


def test_a_line_end_within_the_data_of_an_event_ends_no_message(held: NewHeld) -> None:
    world = held()
    world.change(RUN_STATUS_COMPLETED, event(1, '{\r\n "a": 1\n}'))
    lines = [line for line in whole(world, "1.0").split(b"\n") if line.startswith(b"data: ")]
    assert len(lines) == 4  # three of the event, one of the end
    assert b"\r" not in b"".join(lines)


def test_more_events_than_a_page_come_in_order(held: NewHeld) -> None:
    world = held()
    world.change(RUN_STATUS_COMPLETED, *(event(seq) for seq in range(1, 71)))
    ids = [line for line in whole(world, "1.0").split(b"\n") if line.startswith(b"id: ")]
    assert ids == [b"id: seg_1:%d" % seq for seq in range(1, 71)]


def test_a_quiet_stream_has_comments(held: NewHeld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edge.waiting.event_stream.COMMENT_SECONDS", 0.05)
    world = held()
    with Wire(world.service.edge.port) as wire:
        world.send(wire, "/events", ACCEPT)
        received = b""
        while received.count(b": waiting\n\n") < 5:
            received += wire.socket.recv(65_536)
        world.change(RUN_STATUS_COMPLETED, event(1))
        while b"event: end" not in received:
            received += wire.socket.recv(65_536)


def test_a_stream_has_comments_while_the_backend_is_away(held: NewHeld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edge.waiting.event_stream.COMMENT_SECONDS", 0.05)
    world = held()
    with Wire(world.service.edge.port) as wire:
        world.send(wire, "/events", ACCEPT)
        world.waiting()
        world.service.thread.run(world.runs.go_away())
        received = b""
        # More than were written before it was away, and before the next read failed.
        while received.count(b": waiting\n\n") < 30:
            received += wire.socket.recv(65_536)
        world.service.thread.run(world.runs.come_back())
        world.change(RUN_STATUS_COMPLETED, event(1))
        while b"event: end" not in received:
            received += wire.socket.recv(65_536)


def test_a_slow_reader_is_dropped(held: NewHeld) -> None:
    world = held(stall_seconds=0.2)
    with Wire(world.service.edge.port) as wire:
        world.send(wire, "/events", ACCEPT)
        world.held(1)
        text = '"' + "x" * 60_000 + '"'
        world.change(RUN_STATUS_COMPLETED, *(event(seq, text) for seq in range(1, 400)))
        world.held(0)
        received = b""
        with suppress(ConnectionResetError):
            received = all_of(wire)
        assert not received.endswith(b"0\r\n\r\n")


def test_a_reader_that_does_not_read_is_dropped_with_its_key(held: NewHeld) -> None:
    world = held()
    with Wire(world.service.edge.port) as wire:
        world.send(wire, "/events", ACCEPT)
        world.held(1)
        text = '"' + "x" * 60_000 + '"'
        world.change(None, *(event(seq, text) for seq in range(1, 400)))
        world.service.thread.run(world.service.channel.change_keys(mirror(revision=1_000)))
        world.held(0)
