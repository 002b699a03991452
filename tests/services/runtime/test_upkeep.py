"""The upkeep, round by round: what is past its time is removed."""

from functools import partial
from pathlib import Path

import pytest
from google.protobuf.duration_pb2 import Duration
from sqlalchemy import text

from backend.common.clock import DAY_MS, HOUR_MS
from backend.runtime.worker.executor import LeftoverRemoval
from backend.services.dependencies import Services
from backend.services.keys import usage_sql
from backend.services.model_usage import sql as model_usage_sql
from backend.services.model_usage.sql import AttemptUsage
from backend.services.runs.change_records import NewEvent
from backend.services.runs.lifecycle import append_events
from backend.storage.object_keys import object_key
from backend.storage.statements import Command
from contract.call_groups import group_calls
from tests.services.conftest import TestClock
from tests.services.runs.world import World
from tests.services.runtime.rounds import Rounds
from workflow_api.v1 import audit_pb2, deployment_pb2
from workflow_api_testing import TestBackend


@pytest.fixture
def world(services: Services, clock: TestClock, tmp_path: Path) -> World:
    return World(services, clock, tmp_path)


@pytest.fixture
def rounds(world: World) -> Rounds:
    return Rounds(world)


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


def test_the_use_of_models_is_kept_for_four_hundred_days(world: World, rounds: Rounds) -> None:
    run_id = world.started()
    used = AttemptUsage("ask", -1, 1, "openai:x", 1, 10, 2, 0, 5)
    world.services.database.write(lambda tx: model_usage_sql.record(tx, run_id, world.clock(), [used]))
    world.clock.now += 400 * DAY_MS
    rounds.upkeep.expire()
    assert (world.count("model_usage"), world.count("model_usage_days")) == (1, 1)
    world.clock.now += DAY_MS
    rounds.upkeep.expire()
    assert (world.count("model_usage"), world.count("model_usage_days")) == (0, 0)
    assert world.count("runs", "input_tokens = 10") == 1, "the sums of the run stay"


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
    world.services.database.write(lambda tx: usage_sql.add_batch(tx, "b", sent))
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
        patch.setattr("backend.services.runs.erasure.ERASED_AT_ONCE", 2)
        assert rounds.upkeep.expire()["runs_erased"] == 3
    assert all(world.row(run_id).data_purged_at for run_id in run_ids)


def test_upkeep_ends_after_the_batch_it_is_at_when_it_must_stop(world: World, rounds: Rounds) -> None:
    run_ids = [world.finished() for _ in range(3)]
    world.clock.now += 90 * DAY_MS + 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("backend.services.runs.erasure.ERASED_AT_ONCE", 2)
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
