"""Runs whose process shares the database with others."""

import itertools
import threading
from pathlib import Path
from typing import Any

import pytest

from backend.runtime.remote import worker_capacity
from backend.runtime.scheduling import sql
from backend.runtime.scheduling.dispatcher import Launcher
from backend.runtime.scheduling.run_reaper import RunReaper
from backend.runtime.worker.lease import Lease
from backend.services.dependencies import Services
from tests.services.conftest import TestClock
from tests.services.runs.world import World
from tests.services.runtime.rounds import RecordingEngine, segment_of
from tests.support.poll import until


@pytest.fixture
def world(services: Services, clock: TestClock, tmp_path: Path) -> World:
    return World(services, clock, tmp_path)


class Elsewhere(RecordingEngine):
    """Everything is executed by other processes."""

    def executes(self, segment_id: str) -> bool:
        return False


class Swept:
    """A reaper of a process that executes nothing, and a launcher that dispatches what workers have room for."""

    def __init__(self, world: World, launch_timeout_ms: int = 300_000) -> None:
        self.world = world
        self.steady = 0.0
        services = world.services
        self.engine = Elsewhere()
        self.reaper = RunReaper(
            services.database,
            services.clock,
            self.engine,
            launch_timeout_ms=launch_timeout_ms,
            owner="",
            steady=lambda: self.steady,
        )
        most = worker_capacity(services.database, services.clock)
        self.launcher = Launcher(services.database, services.clock, self.engine, most, reserve=False)

    def after(self, seconds: float, *renewed: str, room: int = 8) -> None:
        """Lets time pass in rounds of five seconds, in which workers renew and segments are dispatched."""
        while True:
            for owner in renewed:
                renew(self.world, owner, room=room)
            self.reaper.reap()
            self.launcher.launch()
            if not seconds:
                return
            passed = min(seconds, 5)
            seconds -= passed
            self.steady += passed
            self.world.clock.advance(seconds=passed)


@pytest.fixture
def swept(world: World) -> Swept:
    return Swept(world)


def lease(world: World, owner: str, seconds: float = 20, slots: int = 8) -> None:
    now = world.clock()
    until_ms = now + round(seconds * 1000)
    world.services.database.write(
        lambda tx: sql.add_lease(tx, owner=owner, host="here", step_slots=slots, now=now, until=until_ms)
    )


def renew(world: World, owner: str, *, draining: bool = False, room: int = 8) -> bool:
    until_ms = world.clock() + 20_000
    return world.services.database.write(lambda tx: sql.renew_lease(tx, owner, until_ms, draining=draining, room=room))


def own_lease(world: World, owner: str = "one", **fields: Any) -> Lease:
    return Lease(world.services.database, world.clock, owner, "here", 8, room=lambda: 8, **fields)


def owners(world: World) -> set[str]:
    return {row.owner for row in world.services.database.read(sql.leases)}


def claimed(world: World, owner: str) -> str:
    run_id = world.started()
    world.begin(run_id, owner=owner)
    return run_id


def test_a_run_whose_owner_holds_no_lease_any_more_is_orphaned(world: World, swept: Swept) -> None:
    lease(world, "one", 20)
    lease(world, "two", 20)
    dead, alive = claimed(world, "one"), claimed(world, "two")
    swept.after(21, "two")
    assert (world.row(dead).status, world.row(dead).error_code) == ("failed", "orphaned")
    assert world.row(alive).status == "running"


def test_a_lease_whose_runs_were_orphaned_is_never_renewed(world: World, swept: Swept) -> None:
    lease(world, "one", 20)
    assert renew(world, "one")
    swept.after(21)
    assert owners(world) == set()
    assert not renew(world, "one")


def test_a_lease_that_is_renewed_before_others_remove_it_stands(world: World, swept: Swept) -> None:
    lease(world, "one", 20)
    run_id = claimed(world, "one")
    world.clock.advance(seconds=21)
    (lapsed,) = world.services.database.read(sql.leases)
    assert lapsed.lapsed(world.clock())
    assert renew(world, "one")
    assert not world.services.database.write(lambda tx: sql.remove_lapsed_lease(tx, lapsed))
    swept.after(0)
    assert world.row(run_id).status == "running"


def test_a_step_of_the_clock_ends_no_run_of_a_live_owner(world: World, swept: Swept) -> None:
    lease(world, "one")
    run_id = claimed(world, "one")
    swept.after(0)
    world.clock.advance(seconds=600)
    swept.after(15)
    assert world.row(run_id).status == "running", "its owner has had no time to renew"
    swept.after(5)
    assert world.row(run_id).error_code == "orphaned"


def test_a_cancel_that_was_answered_holds_though_the_owner_died(world: World, swept: Swept) -> None:
    lease(world, "one")
    run_id = claimed(world, "one")
    world.cancel(run_id)
    swept.after(0)
    assert world.row(run_id).status == "running", "its owner ends it"
    swept.after(21)
    assert world.row(run_id).status == "cancelled"


def test_no_more_is_handed_over_than_live_workers_have_room_for(world: World, swept: Swept) -> None:
    lease(world, "one", slots=1)
    lease(world, "two", slots=1)
    runs = [world.started() for _ in range(5)]
    swept.after(0)
    assert len(swept.engine.submitted) == 2
    world.begin(runs[0], owner="one")
    swept.after(0)
    assert len(swept.engine.submitted) == 2, "a running segment holds its place"
    world.close(runs[0])
    swept.after(0)
    assert len(swept.engine.submitted) == 3


def test_the_last_room_of_workers_is_left_for_keys_that_have_none(world: World, swept: Swept) -> None:
    lease(world, "one", slots=2)
    lease(world, "two", slots=2)
    runs = [world.started() for _ in range(5)]
    swept.after(0)
    assert len(swept.engine.submitted) == 3
    others = [world.started(key=world.new_key(name=name)) for name in ("second", "third")]
    swept.after(0)
    assert len(swept.engine.submitted) == 4, "the second key gets the room that the first has left"
    for run_id in runs[:2]:
        world.begin(run_id, owner="one")
        world.close(run_id)
    swept.after(0)
    submitted = swept.engine.submitted
    assert len(submitted) == 5
    assert {segment_of(world, run_id) for run_id in others} < set(submitted)


def test_a_run_that_waits_behind_busy_workers_never_fails_as_launch_failed(world: World, swept: Swept) -> None:
    lease(world, "one", slots=1)
    claimed(world, "one")
    waiting = world.started()
    swept.after(900, "one", room=0)
    assert world.row(waiting).status == "queued"


def test_a_run_that_a_live_worker_with_room_does_not_begin_fails_at_the_launch_time_out(
    world: World, swept: Swept
) -> None:
    lease(world, "one")
    run_id = world.started()
    swept.after(295, "one")
    assert world.row(run_id).status == "queued"
    swept.after(10, "one")
    assert (world.row(run_id).status, world.row(run_id).error_code) == ("failed", "launch_failed")


def test_the_launch_time_out_does_not_count_while_the_worker_is_frozen(world: World) -> None:
    swept = Swept(world, launch_timeout_ms=5_000)
    lease(world, "one")
    run_id = world.started()
    swept.after(19)
    assert swept.engine.submitted
    assert world.row(run_id).status == "queued", "no renewal proves that the worker could have begun it"


def test_a_lease_of_a_clock_that_was_ahead_does_not_outlive_its_process(world: World, swept: Swept) -> None:
    lease(world, "one", 3600)
    run_id = claimed(world, "one")
    swept.after(20)
    assert world.row(run_id).error_code == "orphaned"


def test_a_process_that_starts_right_after_a_step_of_the_clock_ends_no_run_of_a_live_owner(world: World) -> None:
    lease(world, "one")
    run_id = claimed(world, "one")
    world.clock.advance(seconds=600)
    swept = Swept(world)
    swept.after(15)
    assert world.row(run_id).status == "running", "its owner may renew by the new time"
    swept.after(5)
    assert world.row(run_id).error_code == "orphaned"


def test_a_restart_of_the_only_worker_fails_nothing_of_a_backlog_older_than_the_time_out(
    world: World, swept: Swept
) -> None:
    lease(world, "one", slots=1)
    claimed(world, "one")
    backlog = [world.started() for _ in range(4)]
    swept.after(400, "one", room=0)
    world.services.database.write(lambda tx: sql.remove_lease(tx, "one"))
    swept.after(290)
    lease(world, "two", slots=1)
    swept.after(60, "two")
    assert {world.row(run_id).status for run_id in backlog} == {"queued"}


def test_runs_fail_as_launch_failed_once_no_worker_has_lived_for_the_time_out(world: World, swept: Swept) -> None:
    run_id = world.started()
    swept.after(200)
    late = world.started()
    swept.after(95)
    assert world.row(run_id).status == "queued"
    swept.after(10)
    assert (world.row(run_id).status, world.row(run_id).error_code) == ("failed", "launch_failed")
    assert world.row(late).status == "queued", "it has its whole time, too"
    swept.after(200)
    assert world.row(late).error_code == "launch_failed"
    assert swept.engine.submitted == [], "there was nobody to begin them"


def test_draining_and_dead_workers_have_no_slots(world: World) -> None:
    for owner in ("one", "two", "three"):
        lease(world, owner, 20 if owner == "one" else 60)
    renew(world, "two", draining=True)
    world.clock.advance(seconds=10)
    renew(world, "three")
    world.clock.advance(seconds=11)
    database = world.services.database
    assert database.read(lambda tx: sql.total_step_slots(tx, world.clock())) == 8


def test_slots_are_counted_by_the_clock_of_the_leases(world: World) -> None:
    """After a failover to a server that is behind, the clock of other changes is ahead of it for a while."""
    written_at = world.clock()
    lease(world, "one")
    world.clock.advance(seconds=60)
    assert worker_capacity(world.services.database, lambda: written_at)() == 8
    assert worker_capacity(world.services.database, world.clock)() == 0


def test_a_lease_that_somebody_removed_is_noticed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RENEWED_EVERY_SECONDS", "WATCHED_EVERY_SECONDS"):
        monkeypatch.setattr(f"backend.runtime.worker.lease.{name}", 0.01)
    lost: list[bool] = []
    one = own_lease(world)
    one.start(lambda: lost.append(True))
    assert owners(world) == {"one"}
    world.services.database.write(lambda tx: sql.remove_lease(tx, "one"))
    until(lambda: lost, "the loss")
    one.stop()
    assert lost == [True]


def test_a_lease_that_cannot_be_renewed_is_given_up_before_it_ends(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("backend.runtime.worker.lease.RENEWED_EVERY_SECONDS", 0.01)
    monkeypatch.setattr("backend.runtime.worker.lease.WATCHED_EVERY_SECONDS", 0.01)
    monkeypatch.setattr("backend.runtime.worker.lease.GIVEN_UP_AFTER_SECONDS", 0.1)
    lost: list[bool] = []
    one = own_lease(world)

    def away(*_: object, **__: object) -> bool:
        raise OSError("away")

    one.start(lambda: lost.append(True))
    monkeypatch.setattr("backend.runtime.scheduling.sql.renew_lease", away)
    until(lambda: lost, "the loss")
    one.stop()
    assert "could not be renewed" in caplog.text
    assert owners(world) == set()


def test_a_renewal_that_failed_is_tried_again_without_the_pause_between_renewals(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backend.runtime.worker.lease.RENEWED_EVERY_SECONDS", 0.01)
    renewing, renewed = sql.renew_lease, threading.Event()
    tries = itertools.count()

    def fail_at_first(*args: Any, **fields: Any) -> bool:
        if next(tries) == 0:
            # The next that came after the pause would come tomorrow.
            monkeypatch.setattr("backend.runtime.worker.lease.RENEWED_EVERY_SECONDS", 86_400.0)
            raise OSError("away")
        renewed.set()
        return renewing(*args, **fields)

    monkeypatch.setattr("backend.runtime.scheduling.sql.renew_lease", fail_at_first)
    one = own_lease(world)
    one.start(lambda: None)
    assert renewed.wait(60)
    one.stop()


def test_a_lease_that_lapsed_while_the_machine_was_suspended_is_lost_and_not_renewed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backend.runtime.worker.lease.RENEWED_EVERY_SECONDS", 0.01)
    lost = threading.Event()
    since_boot = [1000.0]
    one = own_lease(world, steady=lambda: since_boot[0])
    one.start(lost.set)
    before = {row.lease_until for row in world.services.database.read(sql.leases)}
    world.clock.advance(seconds=5)
    until(lambda: {row.lease_until for row in world.services.database.read(sql.leases)} != before, "a renewal")
    since_boot[0] += 16
    assert lost.wait(60)
    world.clock.advance(seconds=5)
    held = {row.lease_until for row in world.services.database.read(sql.leases)}
    assert held == {world.clock() + 15_000}, "the last renewal was before"
    one.stop()
