"""Runs that callers wait for are compared with the backend, so that a lost announcement delays nobody for long."""

from collections.abc import Callable

import pytest

from contract.refusals import Refusal
from edge.waiting import follower, latest_runs
from tests.support.poll import wait_until
from tests.unit.edge.waiting.conftest import FIND_CHANGED, GET_RUN, HeldCalls
from tests.unit.edge.wire import Wire
from workflow_api.v1.runs_pb2 import RUN_STATUS_CANCELLED

NewHeld = Callable[..., HeldCalls]
WAIT = "?wait_seconds=30"


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(latest_runs, "DUE_SECONDS", 0.0)


def test_a_caller_has_a_change_whose_announcement_was_lost(held: NewHeld) -> None:
    world = held()
    with Wire(world.service.edge.port) as wire:
        _compared(world, wire)
        world.runs.status = RUN_STATUS_CANCELLED
        assert wire.read().json["status"] == "cancelled"


def test_a_caller_that_comes_back_needs_no_read_as_long_as_its_run_is_compared(
    held: NewHeld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latest_runs, "SECONDS", 3600.0)
    world = held()
    with Wire(world.service.edge.port) as one, Wire(world.service.edge.port) as two:
        _compared(world, one)
        reads = len(world.service.channel.called(GET_RUN))
        assert world.send(two, "?wait_seconds=1").read().json["status"] == "running"
        assert world.send(two, "?wait_seconds=1").read().json["status"] == "running"
        assert len(world.service.channel.called(GET_RUN)) == reads


def test_what_a_backend_cannot_compare_is_read_again(held: NewHeld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latest_runs, "SECONDS", 0.5)
    world = held()

    def refuse(_: object) -> None:
        raise Refusal("runtime_error")

    with Wire(world.service.edge.port) as one, Wire(world.service.edge.port) as two:
        _compared(world, one)
        world.service.channel.answers[FIND_CHANGED] = refuse  # type: ignore[assignment]
        world.runs.status = RUN_STATUS_CANCELLED
        wait_until(lambda: world.send(two, "?wait_seconds=1").read().json["status"] == "cancelled")


def _compared(world: HeldCalls, wire: Wire) -> None:
    """Has a call wait for a run that was read since changes are followed, and compared."""
    world.send(wire, WAIT)
    world.held(1)
    world.following()
    world.waiting()
    world.change()
    world.waiting()
    wait_until(lambda: bool(world.service.channel.called(FIND_CHANGED)))
