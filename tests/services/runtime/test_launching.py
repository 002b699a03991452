"""The launcher and the run reaper, round by round."""

import contextlib
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Final

import pytest
from sqlalchemy import bindparam, update

from backend.services.dependencies import Services
from backend.services.runs import lifecycle, lifecycle_sql
from backend.storage.database import DatabaseUnavailableError
from backend.storage.statements import Command
from backend.storage.tables.runs import runs
from contract.fields import PRIORITIES
from tests.services.conftest import TestClock
from tests.services.runs.world import World
from tests.services.runtime.rounds import Rounds, segment_of
from workflow_api.v1 import keys_pb2

HIGH: Final = ("high", "high")


@pytest.fixture
def world(services: Services, clock: TestClock, tmp_path: Path) -> World:
    return World(services, clock, tmp_path)


@pytest.fixture
def rounds(world: World) -> Rounds:
    return Rounds(world)


def test_a_segment_is_dispatched_once(world: World, rounds: Rounds) -> None:
    run_id = world.started()
    rounds.launcher.launch()
    rounds.launcher.launch()
    assert rounds.engine.submitted == [segment_of(world, run_id)]


def test_no_more_segments_are_dispatched_than_the_engine_may_hold(world: World, rounds: Rounds) -> None:
    runs = [world.started() for _ in range(6)]
    rounds.launcher.launch()
    assert rounds.engine.submitted == [segment_of(world, run_id) for run_id in runs[:4]]
    world.begin(runs[0])
    rounds.launcher.launch()
    assert len(rounds.engine.submitted) == 4, "a running segment holds its place"
    world.close(runs[0])
    rounds.launcher.launch()
    assert rounds.engine.submitted[4:] == [segment_of(world, runs[4])]


def test_a_busy_key_does_not_delay_another_keys_first_run(world: World, rounds: Rounds) -> None:
    busy = [world.started() for _ in range(8)]
    other = world.started(key=world.new_key())
    rounds.launcher.launch()
    dispatched = rounds.engine.submitted
    assert dispatched.index(segment_of(world, other)) == 1
    assert dispatched[0] == segment_of(world, busy[0])


def test_a_key_with_running_segments_comes_after_one_without(world: World, rounds: Rounds) -> None:
    for _ in range(3):
        world.started()
    rounds.launcher.launch()
    world.started()
    other = world.started(key=world.new_key())
    rounds.launcher.launch()
    assert rounds.engine.submitted[3:] == [segment_of(world, other)]


def test_keys_of_higher_priority_go_first_and_keys_of_one_class_take_turns(world: World) -> None:
    rounds = Rounds(world, most=8)
    keys = [world.new_key(priority=PRIORITIES[name], max_concurrent_runs=100) for name in ("low", "normal", *HIGH)]
    of = {segment_of(world, world.started(key=key)): place for place, key in enumerate(keys) for _ in range(8)}
    rounds.launcher.launch()
    assert [of[each] for each in rounds.engine.submitted] == [2, 3, 2, 1, 3, 2, 3, 0]


def test_a_changed_priority_counts_for_runs_that_wait_already(world: World, rounds: Rounds) -> None:
    other = world.new_key()
    first, second = world.started(), world.started(key=other)
    world.keys("UpdateKey", keys_pb2.UpdateKeyRequest(key_id=other, priority=keys_pb2.KEY_PRIORITY_HIGH))
    rounds.launcher.launch()
    assert rounds.engine.submitted == [segment_of(world, run_id) for run_id in (second, first)]


@pytest.mark.parametrize("seed", range(3))
def test_of_eight_dispatches_one_at_least_is_of_each_class_that_waits(world: World, seed: int) -> None:
    chance = Random(seed)
    rounds = Rounds(world, most=16)
    runs: dict[str, tuple[str, str]] = {}
    for name in (*PRIORITIES, *PRIORITIES):
        key = world.new_key(priority=PRIORITIES[name], max_concurrent_runs=100)
        for run_id in (world.started(key=key) for _ in range(chance.randint(6, 14))):
            runs[segment_of(world, run_id)] = (run_id, name)
    ended = 0
    while len(rounds.engine.submitted) < len(runs):
        rounds.launcher.launch()
        for segment in rounds.engine.submitted[ended : ended + chance.randint(1, 3)]:
            world.begin(runs[segment][0])
            world.close(runs[segment][0])
            ended += 1
    order = [runs[segment][1] for segment in rounds.engine.submitted]
    for name in PRIORITIES:
        places = [place for place, each in enumerate(order) if each == name]
        assert max(later - before for before, later in pairwise([-1, *places])) <= 8, order


def test_a_segment_dispatched_to_a_dead_process_is_dispatched_again(world: World, rounds: Rounds) -> None:
    run_id = world.started()
    rounds.launcher.launch()
    rounds.reaper.recover()
    rounds.launcher.launch()
    assert rounds.engine.submitted == [segment_of(world, run_id)] * 2


def test_a_segment_that_was_dispatched_and_does_not_begin_is_dispatched_again_by_another_number(
    world: World, rounds: Rounds
) -> None:
    run_id = world.started()
    rounds.launcher.launch()
    for seconds in (0, 10):
        rounds.sweep_after(world, seconds)
        rounds.launcher.launch()
    assert rounds.engine.dispatches == [1], "it may still begin"
    rounds.sweep_after(world, 1)
    rounds.launcher.launch()
    assert rounds.engine.submitted == [segment_of(world, run_id)] * 2
    assert rounds.engine.dispatches == [1, 2]


def test_a_dispatch_in_the_future_of_a_clock_that_was_ahead_counts_as_lost(world: World, rounds: Rounds) -> None:
    world.started()
    rounds.launcher.launch()
    world.clock.advance(seconds=-3600)
    rounds.sweep_after(world, 0)
    rounds.launcher.launch()
    assert rounds.engine.dispatches == [1, 2]


def test_a_segment_that_nothing_takes_up_in_time_fails_as_launch_failed(world: World, rounds: Rounds) -> None:
    run_id = world.started()
    rounds.launcher.launch()
    for seconds in (0, 290):
        rounds.sweep_after(world, seconds, launch=True)
        assert world.row(run_id).status == "queued"
    rounds.sweep_after(world, 10, launch=True)
    row = world.row(run_id)
    assert (row.status, row.error_code) == ("failed", "launch_failed")
    assert world.events(run_id).segments == []


def test_a_segment_that_was_left_queued_for_an_ended_run_ends_at_the_launch_time_out(
    world: World, rounds: Rounds
) -> None:
    run_id = world.finished()
    left = world.services.database.write(lambda tx: lifecycle.queue_segment(tx, run_id, world.clock()))
    rounds.launcher.launch()
    rounds.sweep_after(world, 310, launch=True)
    assert world.count("segments", f"segment_id = '{left}' AND state = 'ended'") == 1
    assert world.row(run_id).status == "completed"


@pytest.mark.parametrize("step", [-600, 600])
def test_after_a_step_of_the_clock_a_segment_has_the_whole_time_to_be_taken_up(
    world: World, rounds: Rounds, step: int
) -> None:
    rounds.sweep_after(world, 0)
    run_id = world.started()
    rounds.launcher.launch()
    world.clock.advance(seconds=step)
    for seconds in (0, 290):
        rounds.sweep_after(world, seconds, launch=True)
        assert world.row(run_id).status == "queued"
    rounds.sweep_after(world, 20, launch=True)
    assert world.row(run_id).error_code == "launch_failed"


def test_the_launch_time_out_does_not_count_while_the_database_takes_no_changes(
    world: World, rounds: Rounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = world.started()
    rounds.launcher.launch()
    rounds.sweep_after(world, 0)

    def full(*_: object, **__: object) -> None:
        raise DatabaseUnavailableError("The disk is full.")

    with monkeypatch.context() as failing:
        failing.setattr(world.services.database, "write", full)
        for _ in range(100):
            with contextlib.suppress(DatabaseUnavailableError):
                rounds.sweep_after(world, 5)
    rounds.sweep_after(world, 0, launch=True)
    assert world.row(run_id).status == "queued"


def test_a_segment_that_waits_its_turn_does_not_time_out(world: World, rounds: Rounds) -> None:
    runs = [world.started() for _ in range(5)]
    rounds.launcher.launch()
    for run_id in runs[:4]:
        world.begin(run_id)
    rounds.sweep_after(world, 400)
    assert world.row(runs[4]).status == "queued"


def test_a_segment_that_began_is_not_failed_as_launch_failed(world: World, rounds: Rounds) -> None:
    run_id = world.started()
    rounds.launcher.launch()
    world.begin(run_id)
    rounds.sweep_after(world, 400)
    assert world.row(run_id).status == "running"


def test_the_engine_cancels_a_run_whose_cancel_was_requested(world: World, rounds: Rounds) -> None:
    run_id = world.started()
    segment_id = world.begin(run_id)
    rounds.reaper.reap()
    assert rounds.engine.cancelled == []
    world.cancel(run_id)
    rounds.reaper.reap()
    assert rounds.engine.cancelled == [segment_id]


@pytest.mark.parametrize(("cancelled", "ended"), [(True, ("cancelled", None)), (False, ("failed", "orphaned"))])
def test_a_running_segment_that_the_engine_does_not_execute_is_ended(
    world: World, rounds: Rounds, cancelled: bool, ended: tuple[str, str | None]
) -> None:
    run_id = world.started()
    rounds.engine.lost.add(world.begin(run_id))
    if cancelled:
        world.cancel(run_id)
    rounds.reaper.reap()
    assert (world.row(run_id).status, world.row(run_id).error_code) == ended


def test_a_segment_that_parked_since_it_was_read_is_not_ended(
    world: World, rounds: Rounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = world.started("Gated")
    segment_id = world.begin(run_id)

    def park(_: str) -> bool:
        world.park(run_id, segment_id, "review")
        return False

    monkeypatch.setattr(rounds.engine, "executes", park)
    rounds.reaper.reap()
    assert world.row(run_id).status == "waiting_for_approval"


def test_parked_and_finished_runs_stay_as_they_are_at_the_start(world: World, rounds: Rounds) -> None:
    parked = world.started("Gated")
    world.park(parked, world.begin(parked), "review")
    finished = world.finished()
    running = world.started()
    world.begin(running)
    rounds.reaper.recover()
    assert world.row(parked).status == "waiting_for_approval"
    assert world.row(finished).status == "completed"
    assert world.row(running).error_code == "orphaned"


def test_a_cancel_that_was_answered_holds_after_a_crash(world: World, rounds: Rounds) -> None:
    run_id = world.started()
    world.begin(run_id)
    world.cancel(run_id)
    rounds.reaper.recover()
    assert (world.row(run_id).status, world.row(run_id).error_code) == ("cancelled", None)


def test_children_have_room_of_their_own_at_each_depth(world: World, rounds: Rounds) -> None:
    for _ in range(4):
        world.begin(world.started())
    waiting = world.started()
    children = [world.started() for _ in range(5)]
    deepen = Command(update(runs).where(runs.c.run_id == bindparam("of")).values(depth=1))
    world.services.database.write(lambda tx: tx.many(deepen, [{"of": run_id} for run_id in children]))
    rounds.launcher.launch()
    assert rounds.engine.submitted == [segment_of(world, run_id) for run_id in children[:4]]
    assert segment_of(world, waiting) not in rounds.engine.submitted


def test_a_run_that_parked_in_the_moment_in_which_its_parent_ended_is_cancelled(world: World, rounds: Rounds) -> None:
    run_id = world.started("Gated")
    world.park(run_id, world.begin(run_id), "review")
    world.services.database.write(lambda tx: lifecycle_sql.request_cancel(tx, run_id, world.clock(), None))
    rounds.reaper.reap()
    assert world.row(run_id).status == "cancelled"
