"""Calls that are held, and how they end. (contract 14.16, 17.14, 30.6)"""

from collections.abc import Callable

from google.protobuf.timestamp_pb2 import Timestamp

from tests.unit.edge.services import mirror, mirrored_key
from tests.unit.edge.waiting.conftest import GET_RUN, HeldCalls
from tests.unit.edge.wire import Wire
from workflow_api.v1.keys_pb2 import AllowedHours
from workflow_api.v1.runs_pb2 import RUN_STATUS_CANCELLED, RUN_STATUS_WAITING_FOR_APPROVAL, Event

NewHeld = Callable[..., HeldCalls]
WAIT = "?wait_seconds=30"


def test_a_change_is_read_once_and_nothing_before_it(held: NewHeld) -> None:
    world = held()
    with Wire(world.service.edge.port) as wire:
        world.send(wire, WAIT)
        world.held(1)
        world.following()
        world.waiting()
        reads = len(world.service.channel.called(GET_RUN))
        world.change(RUN_STATUS_WAITING_FOR_APPROVAL)
        assert wire.read().json["status"] == "waiting_for_approval"
    assert len(world.service.channel.called(GET_RUN)) == reads + 1
    world.held(0)


def test_a_change_of_neither_status_nor_counts_is_no_answer(held: NewHeld) -> None:
    world = held()
    with Wire(world.service.edge.port) as wire:
        world.send(wire, WAIT)
        world.held(1)
        world.change()
        world.change(RUN_STATUS_CANCELLED)
        assert wire.read().json["status"] == "cancelled"


def test_a_key_holds_so_many_calls_and_one_more_is_answered_at_once(held: NewHeld) -> None:
    world = held(held_per_key=2)
    port = world.service.edge.port
    with Wire(port) as one, Wire(port) as two, Wire(port) as three:
        world.send(one, WAIT)
        world.send(two, "/events", "Accept: text/event-stream")
        world.held(2)
        assert world.send(three, WAIT).read().json["status"] == "running"
        assert world.send(three, f"/events{WAIT}").read().json["events"] == []
        world.change(RUN_STATUS_CANCELLED)
        assert one.read().json["status"] == "cancelled"
    world.held(0)


def test_calls_that_are_held_leave_connections_to_others(held: NewHeld) -> None:
    world = held(connections=16, held_per_key=100)
    wires = [Wire(world.service.edge.port) for _ in range(14)]
    for wire in wires[:12]:
        world.send(wire, WAIT)
    world.held(12)
    assert world.send(wires[12], WAIT).read().json["status"] == "running"
    for wire in wires:
        wire.socket.close()
    world.held(0)


def test_events_held_across_segments_skip_nothing_of_the_newer_one(held: NewHeld) -> None:
    world = held()
    world.runs.events = [Event(seq=seq) for seq in (1, 2)]
    with Wire(world.service.edge.port) as wire:
        world.send(wire, f"/events{WAIT}&after_seq=2")
        world.held(1)
        world.following()
        world.waiting()
        world.runs.segment_id = "seg_2"
        world.change(None, Event(seq=3))
        page = wire.read().json
    assert (page["segment_id"], page["events"], page["next_after_seq"]) == ("seg_2", [], 0)


def test_a_caller_that_goes_is_held_no_longer(held: NewHeld) -> None:
    world = held()
    for target, headers in ((WAIT, ()), (f"/events{WAIT}", ()), ("/events", ("Accept: text/event-stream",))):
        with Wire(world.service.edge.port) as wire:
            world.send(wire, target, *headers)
            world.held(1)
        world.held(0)


def test_a_held_answer_tells_the_rate_limit_as_it_is_at_its_end(held: NewHeld) -> None:
    world = held()
    clock = world.service.clock
    clock.now_ms -= clock.now_ms % 60_000
    with Wire(world.service.edge.port) as wire:
        for later_ms, used, reset, status in (
            (10_000, 1, "50", RUN_STATUS_WAITING_FOR_APPROVAL),
            (60_000, 0, "50", RUN_STATUS_CANCELLED),
        ):
            world.send(wire, WAIT)
            world.waiting()
            clock.now_ms += later_ms
            world.change(status)
            headers = wire.read().headers
            assert headers["RateLimit-Reset"] == reset
            assert int(headers["RateLimit-Limit"]) - int(headers["RateLimit-Remaining"]) == used


def test_the_end_of_what_a_key_may_do_ends_its_held_calls(held: NewHeld) -> None:
    world = held()
    clock, hour = world.service.clock, world.service.clock.now_ms // 3_600_000 % 24
    window = AllowedHours(start_hour=hour, end_hour=(hour + 1) % 24)
    soon = Timestamp(seconds=clock.now_ms // 1000 + 60)
    for revision, other, later_ms, refusal in (
        (2, {"allowed_hours": window}, 3_600_000, "outside_time_window"),
        (3, {"expires_at": soon}, 60_000, "unauthorized"),
    ):
        present = clock.now_ms
        keys = mirror(mirrored_key(**other), revision=revision)
        world.service.thread.run(world.service.channel.change_keys(keys))
        with Wire(world.service.edge.port) as wire:
            world.send(wire, WAIT)
            world.held(1)
            clock.now_ms = present + later_ms
            assert wire.read().code == refusal
        clock.now_ms = present


def test_a_backend_that_restarts_ends_no_held_call(held: NewHeld) -> None:
    world = held()
    with Wire(world.service.edge.port) as wire:
        world.send(wire, WAIT)
        world.held(1)
        world.following()
        world.service.thread.run(world.runs.go_away())
        world.change(RUN_STATUS_CANCELLED)
        world.service.thread.run(world.runs.come_back())
        assert wire.read().json["status"] == "cancelled"


def test_a_backend_that_stays_away_leaves_the_answer_that_was_read(held: NewHeld) -> None:
    world = held()
    with Wire(world.service.edge.port) as wire:
        world.send(wire, "?wait_seconds=3")
        world.held(1)
        world.following()
        world.service.thread.run(world.runs.go_away())
        reply = wire.read()
    assert (reply.status, reply.json["status"]) == (200, "running")


def test_an_edge_without_announcements_polls(held: NewHeld) -> None:
    world = held()
    del world.service.channel.streams["/workflow_api.v1.EdgeService/WatchRunChanges"]
    with Wire(world.service.edge.port) as wire:
        world.send(wire, WAIT)
        world.held(1)
        world.change(RUN_STATUS_CANCELLED)
        assert wire.read().json["status"] == "cancelled"
