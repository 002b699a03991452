"""Runs whose process shares the database with others."""

from pathlib import Path

import pytest

from backend.clock import DAY_MS
from backend.runtime.scheduling import workers_sql
from backend.runtime.scheduling.sweeper import Sweeper
from backend.runtime.worker.lease import Lease
from backend.services import Services
from tests.services.conftest import TestClock
from tests.services.runs.world import World
from tests.services.runtime.test_upkeep import RecordingEngine
from tests.support.poll import until


@pytest.fixture
def world(services: Services, clock: TestClock, tmp_path: Path) -> World:
    return World(services, clock, tmp_path)


class Elsewhere(RecordingEngine):
    """Everything is executed by other processes."""

    def executes(self, segment_id: str) -> bool:
        return False


def sweeper(world: World) -> Sweeper:
    services = world.services
    return Sweeper(services.database, services.clock, Elsewhere(), launch_timeout_ms=300_000, owner="")


def lease(world: World, owner: str, seconds: float = 20, slots: int = 8) -> None:
    now = world.clock()
    until_ms = now + round(seconds * 1000)
    world.services.database.write(
        lambda tx: workers_sql.add(tx, owner=owner, host="here", step_slots=slots, now=now, until=until_ms)
    )


def claimed(world: World, owner: str) -> str:
    run_id = world.started()
    world.begin(run_id, owner=owner)
    return run_id


def test_a_run_whose_owner_holds_no_lease_any_more_is_orphaned(world: World) -> None:
    lease(world, "one", 20)
    lease(world, "two", 60)
    dead, alive = claimed(world, "one"), claimed(world, "two")
    world.clock.advance(seconds=21)
    sweeper(world).sweep()
    assert (world.row(dead).status, world.row(dead).error_code) == ("failed", "orphaned")
    assert world.row(alive).status == "running"


def test_a_step_of_the_clock_ends_no_run_of_a_live_owner(world: World) -> None:
    steady = [0.0]
    services = world.services
    swept = Sweeper(
        services.database, services.clock, Elsewhere(), launch_timeout_ms=300_000, owner="", steady=lambda: steady[0]
    )
    lease(world, "one")
    run_id = claimed(world, "one")
    swept.sweep()
    world.clock.advance(seconds=600)
    swept.sweep()
    steady[0] += 19
    world.clock.advance(seconds=19)
    swept.sweep()
    assert world.row(run_id).status == "running", "its owner has had no time to renew"
    steady[0] += 1
    world.clock.advance(seconds=1)
    swept.sweep()
    assert world.row(run_id).error_code == "orphaned"


def test_a_cancel_that_was_answered_holds_though_the_owner_died(world: World) -> None:
    lease(world, "one")
    run_id = claimed(world, "one")
    world.cancel(run_id)
    sweeper(world).sweep()
    assert world.row(run_id).status == "running", "its owner ends it"
    world.clock.advance(seconds=21)
    sweeper(world).sweep()
    assert world.row(run_id).status == "cancelled"


def test_a_run_that_nobody_could_take_fails_at_the_launch_time_out(world: World) -> None:
    run_id = world.started()
    lease(world, "one", 400)
    world.clock.advance(seconds=301)
    sweeper(world).sweep()
    assert world.row(run_id).status == "queued", "it waits for its turn"
    world.clock.advance(seconds=100)
    sweeper(world).sweep()
    assert (world.row(run_id).status, world.row(run_id).error_code) == ("failed", "launch_failed")


def test_draining_and_dead_workers_have_no_slots(world: World) -> None:
    database = world.services.database
    for owner in ("one", "two", "three"):
        lease(world, owner, 20 if owner == "one" else 60)
    now = world.clock()
    database.write(lambda tx: workers_sql.renew(tx, "two", now + 60_000, draining=True))
    world.clock.advance(seconds=21)
    assert database.read(lambda tx: workers_sql.step_slots(tx, world.clock())) == 8


def test_a_new_worker_removes_leases_that_ended_a_day_ago(world: World) -> None:
    lease(world, "dead")
    world.clock.advance(seconds=DAY_MS // 1000 + 21)
    lease(world, "recent", -60)
    own = Lease(world.services.database, world.clock, "own", "here", 8)
    own.start(lambda: None)
    try:
        rows = world.services.database.read(lambda tx: workers_sql.leases(tx, 0))
    finally:
        own.stop()
    assert {row.owner for row in rows} == {"recent", "own"}


def test_a_lease_that_somebody_removed_is_noticed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_RENEWED_EVERY_SECONDS", "_WATCHED_EVERY_SECONDS"):
        monkeypatch.setattr(f"backend.runtime.worker.lease.{name}", 0.01)
    lost: list[bool] = []
    one = Lease(world.services.database, world.clock, "one", "here", 8)
    one.start(lambda: lost.append(True))
    assert world.services.database.read(lambda tx: workers_sql.live(tx, world.clock())) == {"one"}
    world.services.database.write(lambda tx: workers_sql.remove(tx, "one"))
    until(lambda: lost, "the loss")
    one.stop()
    assert lost == [True]


def test_a_lease_that_cannot_be_renewed_is_given_up_before_it_ends(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("backend.runtime.worker.lease._RENEWED_EVERY_SECONDS", 0.01)
    monkeypatch.setattr("backend.runtime.worker.lease._WATCHED_EVERY_SECONDS", 0.01)
    monkeypatch.setattr("backend.runtime.worker.lease._GIVEN_UP_AFTER_SECONDS", 0.1)
    lost: list[bool] = []
    one = Lease(world.services.database, world.clock, "one", "here", 8)

    def away(*_: object, **__: object) -> bool:
        raise OSError("away")

    one.start(lambda: lost.append(True))
    monkeypatch.setattr("backend.runtime.scheduling.workers_sql.renew", away)
    until(lambda: lost, "the loss")
    one.stop()
    assert "could not be renewed" in caplog.text
    assert world.services.database.read(lambda tx: workers_sql.live(tx, world.clock())) == set()
