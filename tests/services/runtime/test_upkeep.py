"""The launcher, the sweeper and the upkeep, round by round, with an engine that only records its calls."""

import contextlib
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from sqlalchemy import bindparam, select, text

from backend.audit import retention as audit_retention
from backend.clock import DAY_MS, HOUR_MS
from backend.keys import retention as keys_retention
from backend.keys import usage_sql
from backend.runs import retention as runs_retention
from backend.runs.lifecycle import append_events
from backend.runs.new_events import NewEvent
from backend.runtime.final_sweep import sql
from backend.runtime.publishing import sql as publishing_sql
from backend.runtime.scheduling import sql as scheduling_sql
from backend.runtime.scheduling.launcher import Launcher
from backend.runtime.scheduling.sweeper import Sweeper
from backend.runtime.scheduling.upkeep import Upkeep
from backend.runtime.worker.leftovers import LeftoverRemoval
from backend.services import Services
from backend.storage.database import DatabaseUnavailableError
from backend.storage.object_keys import object_key
from backend.storage.statements import Command, ScalarQuery, Statement
from backend.storage.tables.segments import segments
from contract.call_groups import group_calls
from tests.services.conftest import TestClock
from tests.services.runs.world import World
from workflow_api.v1 import audit_pb2, deployment_pb2
from workflow_api_testing import TestBackend


@dataclass
class RecordingEngine:
    submitted: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    lost: set[str] = field(default_factory=set)
    hand_overs: list[int] = field(default_factory=list)

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def submit(self, segment_id: str, hand_over: int) -> None:
        self.submitted.append(segment_id)
        self.hand_overs.append(hand_over)

    def cancel(self, segment_id: str) -> None:
        self.cancelled.append(segment_id)

    def executes(self, segment_id: str) -> bool:
        return segment_id not in self.lost

    def claimed(self) -> set[str]:
        return set()


class Rounds:
    def __init__(self, world: World, most: int = 4) -> None:
        services = world.services
        self.engine = RecordingEngine()
        self.launcher = Launcher(services.database, services.clock, self.engine, lambda: most, reserve=True)
        self.steady_seconds = 0.0
        self.sweeper = Sweeper(
            services.database,
            services.clock,
            self.engine,
            launch_timeout_ms=300_000,
            steady=lambda: self.steady_seconds,
        )
        self.upkeep = Upkeep(services.database, services.clock)
        self.upkeep.register(*runs_retention.rules(world.runtime), *keys_retention.RULES, *audit_retention.RULES)

    def sweep_after(self, world: World, seconds: int, *, launch: bool = False) -> None:
        """Lets time pass in rounds of five seconds, each of which sweeps, and launches where asked to."""
        while True:
            passed = min(seconds, 5)
            self.steady_seconds += passed
            world.clock.advance(seconds=passed)
            self.sweeper.sweep()
            if launch:
                self.launcher.launch()
            seconds -= passed
            if not seconds:
                return


@pytest.fixture
def world(services: Services, clock: TestClock, tmp_path: Path) -> World:
    return World(services, clock, tmp_path)


@pytest.fixture
def rounds(world: World) -> Rounds:
    return Rounds(world)


def segment_of(world: World, run_id: str) -> str:
    query = ScalarQuery[str](select(segments.c.segment_id).where(segments.c.run_id == bindparam("run_id")))
    return world.services.database.read(lambda tx: tx.scalar_one(query, run_id=run_id))


def test_a_segment_is_handed_over_once(world: World, rounds: Rounds) -> None:
    run_id = world.started()
    rounds.launcher.launch()
    rounds.launcher.launch()
    assert rounds.engine.submitted == [segment_of(world, run_id)]


def test_no_more_segments_are_handed_over_than_the_engine_may_hold(world: World, rounds: Rounds) -> None:
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
    handed_over = rounds.engine.submitted
    assert handed_over.index(segment_of(world, other)) == 1
    assert handed_over[0] == segment_of(world, busy[0])


def test_a_key_with_running_segments_comes_after_one_without(world: World, rounds: Rounds) -> None:
    for _ in range(3):
        world.started()
    rounds.launcher.launch()
    world.started()
    other = world.started(key=world.new_key())
    rounds.launcher.launch()
    assert rounds.engine.submitted[3:] == [segment_of(world, other)]


def test_a_segment_handed_to_a_dead_process_is_handed_over_again(world: World, rounds: Rounds) -> None:
    run_id = world.started()
    rounds.launcher.launch()
    rounds.sweeper.recover()
    rounds.launcher.launch()
    assert rounds.engine.submitted == [segment_of(world, run_id)] * 2


def test_a_segment_that_was_handed_over_and_does_not_begin_is_handed_over_again_by_another_number(
    world: World, rounds: Rounds
) -> None:
    run_id = world.started()
    rounds.launcher.launch()
    for seconds in (0, 10):
        rounds.sweep_after(world, seconds)
        rounds.launcher.launch()
    assert rounds.engine.hand_overs == [1], "it may still begin"
    rounds.sweep_after(world, 1)
    rounds.launcher.launch()
    assert rounds.engine.submitted == [segment_of(world, run_id)] * 2
    assert rounds.engine.hand_overs == [1, 2]


def test_a_hand_over_in_the_future_of_a_clock_that_was_ahead_counts_as_lost(world: World, rounds: Rounds) -> None:
    world.started()
    rounds.launcher.launch()
    world.clock.advance(seconds=-3600)
    rounds.sweep_after(world, 0)
    rounds.launcher.launch()
    assert rounds.engine.hand_overs == [1, 2]


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
    rounds.sweeper.sweep()
    assert rounds.engine.cancelled == []
    world.cancel(run_id)
    rounds.sweeper.sweep()
    assert rounds.engine.cancelled == [segment_id]


@pytest.mark.parametrize(("cancelled", "ended"), [(True, ("cancelled", None)), (False, ("failed", "orphaned"))])
def test_a_running_segment_that_the_engine_does_not_execute_is_ended(
    world: World, rounds: Rounds, cancelled: bool, ended: tuple[str, str | None]
) -> None:
    run_id = world.started()
    rounds.engine.lost.add(world.begin(run_id))
    if cancelled:
        world.cancel(run_id)
    rounds.sweeper.sweep()
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
    rounds.sweeper.sweep()
    assert world.row(run_id).status == "waiting_for_approval"


def test_parked_and_finished_runs_stay_as_they_are_at_the_start(world: World, rounds: Rounds) -> None:
    parked = world.started("Gated")
    world.park(parked, world.begin(parked), "review")
    finished = world.finished()
    running = world.started()
    world.begin(running)
    rounds.sweeper.recover()
    assert world.row(parked).status == "waiting_for_approval"
    assert world.row(finished).status == "completed"
    assert world.row(running).error_code == "orphaned"


def test_a_cancel_that_was_answered_holds_after_a_crash(world: World, rounds: Rounds) -> None:
    run_id = world.started()
    world.begin(run_id)
    world.cancel(run_id)
    rounds.sweeper.recover()
    assert (world.row(run_id).status, world.row(run_id).error_code) == ("cancelled", None)


def test_records_are_deleted_after_their_time(world: World, rounds: Rounds) -> None:
    world.started()
    audited = world.count("audit_records")
    assert (world.count("idempotency_records"), audited > 0) == (1, True)
    world.clock.now += DAY_MS
    rounds.upkeep.expire()
    assert world.count("idempotency_records") == 1
    world.clock.now += 1
    rounds.upkeep.expire()
    assert (world.count("idempotency_records"), world.count("audit_records")) == (0, audited)
    world.clock.now += 400 * DAY_MS
    rounds.upkeep.expire()
    assert world.count("audit_records") == 0


EXPIRE_RECORDS = Command(text("UPDATE idempotency_records SET first_used_at = 0"))
ADD_USAGE = Command(
    text(
        "INSERT INTO usage_records (batch_id, position, at, key_id, method, route, status, address, reason,"
        " request_id) VALUES ('b', :position, :at, 'k', 'GET', '/me', 200, '::1', '', 'r')"
    )
)


def test_however_many_records_are_past_their_time_none_is_left(world: World, rounds: Rounds) -> None:
    records = [{"position": position, "at": world.clock()} for position in range(2_500)]
    world.services.database.write(lambda tx: tx.many(ADD_USAGE, records))
    world.clock.now += 90 * DAY_MS + 1
    rounds.upkeep.expire()
    assert world.count("usage_records") == 0


def test_one_deletion_of_old_records_is_bounded(world: World) -> None:
    records = [{"position": position, "at": world.clock()} for position in range(5)]
    world.services.database.write(lambda tx: tx.many(ADD_USAGE, records))
    before = world.clock() + 1
    deleted = [
        world.services.database.write(lambda tx: usage_sql.purge_records.delete_batch(tx, before, 2)) for _ in range(4)
    ]
    assert deleted == [2, 2, 1, 0]


def test_usage_records_are_kept_for_ninety_days(world: World, rounds: Rounds) -> None:
    world.services.database.write(lambda tx: tx.run(ADD_USAGE, position=1, at=world.clock()))
    world.clock.now += 90 * DAY_MS
    rounds.upkeep.expire()
    assert world.count("usage_records") == 1
    world.clock.now += 1
    rounds.upkeep.expire()
    assert world.count("usage_records") == 0


def test_a_batch_of_usage_records_is_kept_until_its_newest_is_ninety_days_old(world: World, rounds: Rounds) -> None:
    first = world.clock() - world.clock() % 10_000
    sent = list(group_calls((at, "k", ("GET", "/me", 200, ""), "::1", "r", 1) for at in (first, first + 1)))
    world.services.database.write(lambda tx: usage_sql.keep(tx, "b", sent))
    world.clock.now = first + 1 + 90 * DAY_MS
    rounds.upkeep.expire()
    assert world.count("usage_batches") == 1
    world.clock.now += 1
    rounds.upkeep.expire()
    assert world.count("usage_batches") == 0


def test_run_data_is_erased_once_the_deployments_retention_is_over(world: World, rounds: Rounds) -> None:
    world.deployment(
        "UpdateDeployment", deployment_pb2.UpdateDeploymentRequest(retention=Duration(seconds=30 * 86_400))
    )
    finished, parked = world.finished(), world.started("Gated")
    world.park(parked, world.begin(parked), "review")
    world.clock.now += 30 * DAY_MS
    assert rounds.upkeep.expire()["runs_erased"] == 0
    world.clock.now += 1
    assert rounds.upkeep.expire()["runs_erased"] == 1
    assert world.row(finished).data_purged_at == world.clock.now
    assert (world.row(finished).parameters, world.row(finished).status) == (None, "completed")
    assert world.row(parked).data_purged_at is None
    assert rounds.upkeep.expire()["runs_erased"] == 0


def test_retention_is_audited_and_removes_the_objects(world: World, rounds: Rounds) -> None:
    run_id = world.finished()
    key = object_key(run_id, "out_1")
    world.objects.put_bytes(key, b"content")
    world.clock.now += 90 * DAY_MS + 1
    rounds.upkeep.expire()
    assert world.runtime.forgotten == [run_id]
    world.removals.round()
    with pytest.raises(KeyError):
        world.objects.open_range(key, 0, 1)
    trail = world.deployment("ListAuditRecords", audit_pb2.ListAuditRecordsRequest(target=run_id)).items
    assert [(record.actor, record.action) for record in trail] == [("system", "run.erased")]


def test_however_many_runs_are_past_the_retention_all_are_erased(world: World, rounds: Rounds) -> None:
    run_ids = [world.finished() for _ in range(3)]
    world.clock.now += 90 * DAY_MS + 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("backend.runs.retention._BATCH", 2)
        assert rounds.upkeep.expire()["runs_erased"] == 3
    assert all(world.row(run_id).data_purged_at for run_id in run_ids)


def test_upkeep_ends_after_the_batch_it_is_at_when_it_must_stop(world: World, rounds: Rounds) -> None:
    run_ids = [world.finished() for _ in range(3)]
    world.clock.now += 90 * DAY_MS + 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("backend.runs.retention._BATCH", 2)
        patch.setattr(world.runtime, "forget", lambda _: rounds.upkeep.halt())
        done = rounds.upkeep.expire()
    assert (done["runs_erased"], done["more"], done["audit_records"]) == (2, 1, 0)
    assert world.row(run_ids[2]).data_purged_at is None


def test_upkeep_by_hand_ends_at_its_time_limit(world: World, rounds: Rounds) -> None:
    world.finished()
    world.clock.now += 90 * DAY_MS + 1
    assert (rounds.upkeep.expire(0)["runs_erased"], rounds.upkeep.expire(0)["more"]) == (0, 1)
    done = rounds.upkeep.expire(60)
    assert (done["runs_erased"], done["more"]) == (1, 0)


def test_folders_of_runs_that_ended_in_another_process_are_removed(world: World, tmp_path: Path) -> None:
    work = tmp_path / "work"
    leftovers = LeftoverRemoval(world.services.database, work)
    parked = world.started("Gated")
    world.park(parked, world.begin(parked), "review")
    for run_id in (parked, "run_gone"):
        (work / run_id / "inputs").mkdir(parents=True)
    leftovers.round()
    assert [folder.name for folder in work.iterdir()] == [parked]
    world.cancel(parked)
    leftovers.round()
    assert list(work.iterdir()) == []


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        (scheduling_sql._WAITING, "ix_segments_open"),
        (scheduling_sql._TAKEN, "ix_segments_open"),
        (scheduling_sql._RUNNING_SEGMENTS, "ix_segments_open"),
        (scheduling_sql._NOT_BEGUN, "ix_segments_open"),
        (scheduling_sql._OVERDUE, "ix_runs_in_flight"),
        (sql._WAITING, "ix_runs_unswept"),
        (publishing_sql._ANY_OPEN, "ix_publications_open"),
    ],
)
def test_rounds_with_nothing_to_do_read_by_index(world: World, statement: Statement, index: str) -> None:
    """A round comes every two seconds or oftener, so it must look at nothing that is over."""

    embedded = world.services.database.read(lambda tx: tx._dialect.name == "sqlite")

    def plan(tx: Any) -> list[str]:
        query, arguments = statement.bind(tx._dialect, {"now": 0, "before": 0, "max_of_a_key": 1})
        if embedded:
            return [row[3] for row in tx._connection.execute(f"EXPLAIN QUERY PLAN {query}", arguments).fetchall()]
        # Few rows are read by a scan all the same where an index would do.
        tx._execute("SET LOCAL enable_seqscan = off", [])
        return [row[0] for row in tx._connection.execute(f"EXPLAIN {query}", arguments).fetchall()]

    steps = world.services.database.write(plan)
    if not embedded:
        assert any(index in step for step in steps), steps
        return
    read = [step for step in steps if step.split()[1] in {"runs", "segments", "publications"}]
    assert f" INDEX {index}" in read[0], read
    assert all(" INDEX " in step for step in read), read


def test_the_database_file_shrinks_after_the_erasure_of_a_run_with_many_events(
    world: World, rounds: Rounds, backend: TestBackend, database_url: str | None
) -> None:
    if database_url is not None:
        pytest.skip("a server's own vacuum does it")
    run_id = world.started("Plain")
    segment_id = world.begin(run_id)
    for _ in range(17):
        events = [NewEvent("step.progress", "first", {"message": "x" * 64_000})] * 32
        world.services.database.write(partial(append_events, segment_id=segment_id, at=1, new=events))
    world.close(run_id, "completed")
    rounds.upkeep.round()
    assert size_of_database(backend.data) > 34_000_000
    world.erase(run_id)
    rounds.upkeep.round()
    assert size_of_database(backend.data) < 3_000_000


def size_of_database(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("workflow-api.sqlite3*"))


@pytest.mark.parametrize("ahead_hours", [1 / 6, 2])
def test_after_a_clock_that_was_ahead_the_hourly_upkeep_runs_within_the_hour(
    world: World, rounds: Rounds, ahead_hours: float
) -> None:
    world.clock.advance(hours=ahead_hours)
    rounds.upkeep.round()
    world.clock.advance(hours=-ahead_hours)
    world.started()
    world.services.database.write(lambda tx: tx.enqueue(EXPIRE_RECORDS))
    rounds.upkeep.round()
    assert world.count("idempotency_records") == 0
    assert rounds.upkeep.next_round_at == world.clock() + HOUR_MS
