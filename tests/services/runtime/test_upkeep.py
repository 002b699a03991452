"""The launcher and the sweeper, round by round, with an engine that only takes notes."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sqlalchemy import text

from backend.clock import DAY_MS
from backend.runtime import upkeep_store
from backend.runtime.launcher import Launcher
from backend.runtime.sweeper import Sweeper
from backend.services import Services
from backend.storage.statements import sql
from tests.services.conftest import TestClock
from tests.services.runs.world import World


@dataclass
class NotingEngine:
    submitted: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def submit(self, segment_id: str) -> None:
        self.submitted.append(segment_id)

    def cancel(self, segment_id: str) -> None:
        self.cancelled.append(segment_id)


class Upkeep:
    def __init__(self, services: Services, work: Path, most: int = 4) -> None:
        self.engine = NotingEngine()
        self.work = work
        work.mkdir(exist_ok=True)
        self.launcher = Launcher(services.database, services.clock, self.engine, most)
        self.sweeper = Sweeper(services.database, services.clock, self.engine, work, launch_timeout_ms=300_000)


@pytest.fixture
def world(services: Services, clock: TestClock, tmp_path: Path) -> World:
    return World(services, clock, tmp_path)


@pytest.fixture
def upkeep(services: Services, tmp_path: Path) -> Upkeep:
    return Upkeep(services, tmp_path / "work")


def _segment(world: World, run_id: str) -> str:
    statement = sql(text("SELECT segment_id FROM segments WHERE run_id = :run_id"))
    return str(world.services.database.read(lambda tx: tx.one(statement, run_id=run_id)).segment_id)


def test_a_segment_is_handed_over_once(world: World, upkeep: Upkeep) -> None:
    run_id = world.started()
    upkeep.launcher.launch()
    upkeep.launcher.launch()
    assert upkeep.engine.submitted == [_segment(world, run_id)]


def test_no_more_segments_are_handed_over_than_the_engine_may_hold(world: World, upkeep: Upkeep) -> None:
    runs = [world.started() for _ in range(6)]
    upkeep.launcher.launch()
    assert upkeep.engine.submitted == [_segment(world, run_id) for run_id in runs[:4]]
    world.begin(runs[0])
    upkeep.launcher.launch()
    assert len(upkeep.engine.submitted) == 4, "a running segment holds its place"
    world.close(runs[0])
    upkeep.launcher.launch()
    assert upkeep.engine.submitted[4:] == [_segment(world, runs[4])]


def test_a_busy_key_does_not_hold_up_another_keys_first_run(world: World, upkeep: Upkeep) -> None:
    busy = [world.started() for _ in range(8)]
    other = world.started(key=world.new_key())
    upkeep.launcher.launch()
    handed_over = upkeep.engine.submitted
    assert handed_over.index(_segment(world, other)) == 1
    assert handed_over[0] == _segment(world, busy[0])


def test_a_key_that_holds_places_comes_after_one_that_holds_none(world: World, upkeep: Upkeep) -> None:
    for _ in range(3):
        world.started()
    upkeep.launcher.launch()
    world.started()
    other = world.started(key=world.new_key())
    upkeep.launcher.launch()
    assert upkeep.engine.submitted[3:] == [_segment(world, other)]


def test_what_was_handed_over_to_a_process_that_is_gone_is_handed_over_again(world: World, upkeep: Upkeep) -> None:
    run_id = world.started()
    upkeep.launcher.launch()
    upkeep.sweeper.recover()
    upkeep.launcher.launch()
    assert upkeep.engine.submitted == [_segment(world, run_id)] * 2


def test_a_segment_that_nothing_takes_up_in_time_fails_as_launch_failed(world: World, upkeep: Upkeep) -> None:
    run_id = world.started()
    upkeep.launcher.launch()
    world.clock.advance(seconds=300)
    upkeep.sweeper.sweep()
    assert world.row(run_id).status == "queued"
    world.clock.advance(seconds=1)
    upkeep.sweeper.sweep()
    row = world.row(run_id)
    assert (row.status, row.error_code) == ("failed", "launch_failed")
    assert world.events(run_id).segments == []


def test_a_segment_that_waits_its_turn_does_not_time_out(world: World, upkeep: Upkeep) -> None:
    runs = [world.started() for _ in range(5)]
    upkeep.launcher.launch()
    for run_id in runs[:4]:
        world.begin(run_id)
    world.clock.advance(seconds=400)
    upkeep.sweeper.sweep()
    assert world.row(runs[4]).status == "queued"


def test_a_segment_that_began_is_not_failed_as_launch_failed(world: World, upkeep: Upkeep) -> None:
    run_id = world.started()
    upkeep.launcher.launch()
    world.begin(run_id)
    world.clock.advance(seconds=400)
    upkeep.sweeper.sweep()
    assert world.row(run_id).status == "running"


def test_the_engine_is_told_to_end_a_run_whose_cancel_was_asked_for(world: World, upkeep: Upkeep) -> None:
    run_id = world.started()
    segment_id = world.begin(run_id)
    upkeep.sweeper.sweep()
    assert upkeep.engine.cancelled == []
    world.cancel(run_id)
    upkeep.sweeper.sweep()
    assert upkeep.engine.cancelled == [segment_id]


def test_parked_and_finished_runs_stay_as_they_are_at_the_start(world: World, upkeep: Upkeep) -> None:
    parked = world.started("Gated")
    world.park(parked, world.begin(parked), "review")
    finished = world.finished()
    running = world.started()
    world.begin(running)
    upkeep.sweeper.recover()
    assert world.row(parked).status == "waiting_for_approval"
    assert world.row(finished).status == "completed"
    assert world.row(running).error_code == "orphaned"


def test_records_are_deleted_after_their_time(world: World, upkeep: Upkeep) -> None:
    world.started()
    audited = world.count("audit_records")
    assert (world.count("idempotency_records"), audited > 0) == (1, True)
    world.clock.now += DAY_MS
    upkeep.sweeper.purge()
    assert world.count("idempotency_records") == 1
    world.clock.now += 1
    upkeep.sweeper.purge()
    assert (world.count("idempotency_records"), world.count("audit_records")) == (0, audited)
    world.clock.now += 400 * DAY_MS
    upkeep.sweeper.purge()
    assert world.count("audit_records") == 0


def test_usage_records_are_kept_for_ninety_days(world: World, upkeep: Upkeep) -> None:
    insert = sql(
        text(
            "INSERT INTO usage_records (batch_id, position, at, key_id, method, route, status, address, reason,"
            " request_id) VALUES ('b', 1, :at, 'k', 'GET', '/me', 200, '::1', '', 'r')"
        )
    )
    world.services.database.write(lambda tx: tx.run(insert, at=world.clock()))
    world.clock.now += 90 * DAY_MS
    upkeep.sweeper.purge()
    assert world.count("usage_records") == 1
    world.clock.now += 1
    upkeep.sweeper.purge()
    assert world.count("usage_records") == 0


def test_folders_of_runs_that_ended_elsewhere_are_removed(world: World, upkeep: Upkeep) -> None:
    parked = world.started("Gated")
    world.park(parked, world.begin(parked), "review")
    for run_id in (parked, "run_gone"):
        (upkeep.work / run_id / "inputs").mkdir(parents=True)
    upkeep.sweeper.tidy()
    assert [folder.name for folder in upkeep.work.iterdir()] == [parked]
    world.cancel(parked)
    upkeep.sweeper.tidy()
    assert list(upkeep.work.iterdir()) == []


def test_rounds_with_nothing_to_do_read_by_index(world: World) -> None:
    """A round comes twice a second, so it must not look at runs that have finished."""
    statements = (
        upkeep_store._WAITING,
        upkeep_store._TAKEN,
        upkeep_store._RUNNING_SEGMENTS,
        upkeep_store._NOT_LAUNCHED,
        upkeep_store._OVERDUE,
    )
    for statement in statements:

        def plan(tx: object, statement: object = statement) -> str:
            text_, arguments = statement.prepare(tx._dialect, {"now": 0, "before": 0, "most_of_a_key": 1})  # type: ignore[attr-defined]
            rows = tx._connection.execute("EXPLAIN QUERY PLAN " + text_, arguments).fetchall()  # type: ignore[attr-defined]
            return "\n".join(row[3] for row in rows)

        told = world.services.database.read(plan)
        assert "SCAN runs\n" not in told + "\n", told
        assert "SCAN segments\n" not in told + "\n", told
