"""Runs that callers who wait share: none that may have changed, and within bounds. (contract 14.16)"""

from collections.abc import Callable

import pytest

from edge.waiting import latest_runs
from edge.waiting.latest_runs import LatestRuns
from tests.support.poll import wait_until
from tests.unit.edge.waiting.conftest import GET_RUN, HeldCalls
from tests.unit.edge.wire import Wire
from workflow_api.v1.runs_pb2 import RUN_STATUS_CANCELLED, RUN_STATUS_WAITING_FOR_APPROVAL, Run, RunSummary

NewHeld = Callable[..., HeldCalls]
WAIT = "?wait_seconds=30"


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def keep(runs: LatestRuns, key_id: str, run_id: str, parameters: str = "{}") -> None:
    runs.end(runs.begin(key_id, run_id), Run(summary=RunSummary(run_id=run_id), parameters=parameters, etag="1"))


def test_a_run_is_shared_only_with_calls_of_the_key_that_read_it() -> None:
    runs = LatestRuns(Clock())
    keep(runs, "ak_1", "run_1")
    assert runs.find("ak_1", "run_1")
    assert runs.find("ak_2", "run_1") is None
    assert runs.find("ak_1", "run_2") is None


def test_a_change_during_a_read_makes_its_answer_old() -> None:
    runs = LatestRuns(Clock())
    reading = runs.begin("ak_1", "run_1")
    runs.changed(["run_1"])
    runs.end(reading, Run())
    assert runs.find("ak_1", "run_1") is None


def test_a_run_counts_as_current_for_seconds_after_it_was_read_or_compared() -> None:
    clock = Clock()
    runs = LatestRuns(clock)
    keep(runs, "ak_1", "run_1")
    clock.now += latest_runs.SECONDS - 1
    (reading,) = runs.due(lambda _: True)
    runs.confirm([reading], asked_at=clock.now)
    clock.now += latest_runs.SECONDS - 1
    assert runs.find("ak_1", "run_1")
    clock.now += 1
    assert runs.find("ak_1", "run_1") is None


def test_only_runs_that_somebody_waits_for_are_kept_and_compared() -> None:
    clock = Clock()
    runs = LatestRuns(clock)
    for run_id in ("run_1", "run_2"):
        keep(runs, "ak_1", run_id)
    unfinished = runs.begin("ak_1", "run_3")
    assert runs.due(lambda _: True) == []
    clock.now += latest_runs.SECONDS
    assert [each.run_id for each in runs.due({"run_1", "run_3"}.__contains__)] == ["run_1"]
    runs.end(unfinished, Run())
    assert [each.run_id for each in runs.due(lambda _: True)] == ["run_1"]


def test_a_run_that_changed_while_it_was_compared_is_not_confirmed() -> None:
    clock = Clock()
    runs = LatestRuns(clock)
    keep(runs, "ak_1", "run_1")
    clock.now += latest_runs.SECONDS
    due = runs.due(lambda _: True)
    runs.changed(["run_1"])
    runs.confirm(due, asked_at=clock.now)
    assert runs.find("ak_1", "run_1") is None


def test_shared_runs_take_bounded_memory() -> None:
    """At most 16 MB, of which a run that has changed takes nothing any more."""
    runs = LatestRuns(Clock())
    keep(runs, "ak_1", "large", "x" * 20_000)
    assert runs.find("ak_1", "large") is None
    for _ in range(2):
        for number in range(2_000):
            keep(runs, "ak_1", f"run_{number}", "x" * 10_000)
        kept = [number for number in range(2_000) if runs.find("ak_1", f"run_{number}")]
        assert kept == list(range(2_000 - len(kept), 2_000))
        assert 1_400 < len(kept) <= 1_600
        runs.changed([f"run_{number}" for number in range(2_000)])


def test_callers_that_wait_for_one_run_share_a_read_until_it_changes(held: NewHeld) -> None:
    world = held()
    port = world.service.edge.port
    with Wire(port) as one, Wire(port) as two:
        _settled(world, one)
        reads = len(world.service.channel.called(GET_RUN))
        world.send(two, WAIT)
        world.held(2)
        assert len(world.service.channel.called(GET_RUN)) == reads
        assert _plain(world)["status"] == "running"
        world.change(RUN_STATUS_WAITING_FOR_APPROVAL)
        for wire in (one, two):
            assert wire.read().json["status"] == "waiting_for_approval"
        world.send(one, WAIT)
        world.held(1)
        world.change(RUN_STATUS_CANCELLED)
        assert one.read().json["status"] == "cancelled"
        assert world.send(two, WAIT).read().json["status"] == "cancelled"


def test_nothing_is_shared_while_changes_may_be_missed(held: NewHeld) -> None:
    world = held()
    with Wire(world.service.edge.port) as one, Wire(world.service.edge.port) as two:
        _settled(world, one)
        world.runs.announces = False
        world.change(RUN_STATUS_CANCELLED)
        world.service.thread.run(world.runs.go_away())
        world.service.thread.run(world.runs.come_back())
        assert one.read().json["status"] == "cancelled"
        assert world.send(two, WAIT).read().json["status"] == "cancelled"


def test_nothing_is_shared_while_the_followed_backend_hangs(held: NewHeld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latest_runs, "SECONDS", 3600.0)
    world = held()
    with Wire(world.service.edge.port) as one:
        _settled(world, one)
        world.runs.announces = False
        world.change(RUN_STATUS_CANCELLED)
        with Wire(world.service.edge.port) as two:
            wait_until(lambda: world.send(two, "?wait_seconds=1").read().json["status"] == "cancelled")


def test_a_call_that_is_answered_at_once_reads_what_is_committed(held: NewHeld) -> None:
    world = held(held_per_key=2)
    with (
        Wire(world.service.edge.port) as one,
        Wire(world.service.edge.port) as two,
        Wire(world.service.edge.port) as three,
    ):
        _settled(world, one)
        world.send(two, WAIT)
        world.held(2)
        world.runs.announces = False
        world.change(RUN_STATUS_CANCELLED)
        assert world.send(three, WAIT).read().json["status"] == "cancelled"


def _settled(world: HeldCalls, wire: Wire) -> None:
    """Has a call wait, and a run in memory that was read since changes are followed."""
    world.send(wire, WAIT)
    world.held(1)
    world.following()
    world.waiting()
    world.change()
    world.waiting()
    with Wire(world.service.edge.port) as other:
        world.send(other, WAIT)
        world.held(2)
    world.held(1)


def _plain(world: HeldCalls) -> dict[str, object]:
    with Wire(world.service.edge.port) as wire:
        return dict(world.send(wire, "").read().json)
