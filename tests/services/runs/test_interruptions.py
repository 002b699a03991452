"""Runs that lose their worker are resumed by themselves, if their workflow says so. (docs/flows.md)"""

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import update

from backend.services.runs.resume.follow_up import InterruptedRuns
from backend.services.runs.resume.service import RunResumer
from backend.services.runs.start.service import RunStarter
from backend.services.uploads.staging import Uploads
from backend.storage.statements import Command
from backend.storage.tables.keys import api_keys
from tests.services.runs.world import World
from workflow_api.v1 import keys_pb2, runs_pb2

WORKFLOW = """
kind: Workflow
name: Lasting
status: active
on_interruption: resume
steps: [{step: first, agent: worker, environment: standard}]
"""


def follower(world: World, folder: Path) -> InterruptedRuns:
    """The rounds of another backend."""
    starter = RunStarter(world.services, world.runtime)
    uploads = Uploads(world.services, world.objects, folder / "more-uploads")
    return InterruptedRuns(world.services, RunResumer(world.services, starter, uploads))


@pytest.fixture
def interrupted(world: World, tmp_path: Path) -> InterruptedRuns:
    world.workflows |= world.apply(WORKFLOW)
    return follower(world, tmp_path)


def lose(world: World, run_id: str) -> None:
    """Takes the run's worker away."""
    world.begin(run_id)
    assert world.close(run_id, "failed", error_code="orphaned", error_message="x")


def lost(world: World, **fields: object) -> str:
    run_id = world.started("Lasting", **fields)
    lose(world, run_id)
    return run_id


def follows(world: World, run_id: str) -> str:
    return world.get(run_id).resumed_by


def warnings(world: World, run_id: str) -> str:
    return " ".join(world.get(run_id).summary.warnings)


def test_a_run_that_loses_its_worker_is_resumed_once_and_linked_both_ways(
    world: World, interrupted: InterruptedRuns
) -> None:
    run_id = lost(world, client_reference="order-7", labels={"team": "north"})
    interrupted.round()
    interrupted.round()
    ended, new = world.get(run_id), world.get(follows(world, run_id))
    assert new.resumed_from == run_id
    assert (ended.summary.status, ended.error.code) == (runs_pb2.RUN_STATUS_FAILED, "orphaned")
    assert (new.summary.client_reference, dict(new.summary.labels)) == ("order-7", {"team": "north"})
    assert new.summary.version == ended.summary.version
    assert new.triggered_by == ended.triggered_by
    assert list(ended.summary.warnings) == []
    assert world.count("runs") == 2
    assert world.count("daily_usage", "runs_started = 2") == 1


def test_a_run_is_resumed_in_its_own_version(world: World, interrupted: InterruptedRuns) -> None:
    run_id = lost(world)
    world.apply(WORKFLOW.replace("step: first", "step: other").replace("on_interruption: resume\n", ""))
    interrupted.round()
    assert world.get(follows(world, run_id)).summary.version == world.get(run_id).summary.version == 1


@pytest.mark.parametrize("field", ["", "on_interruption: fail\n"])
def test_without_the_field_nothing_follows(world: World, interrupted: InterruptedRuns, field: str) -> None:
    world.workflows |= world.apply(WORKFLOW.replace("on_interruption: resume\n", field).replace("Lasting", "Short"))
    run_id = world.started("Short")
    lose(world, run_id)
    interrupted.round()
    assert (world.count("runs"), world.count("interruptions")) == (1, 0)


def test_the_default_is_no_new_version(world: World) -> None:
    for field in ("", "on_interruption: fail\n"):
        world.apply(WORKFLOW.replace("on_interruption: resume\n", field))
    assert world.count("workflow_versions v JOIN workflows w USING (workflow_id)", "w.name = 'Lasting'") == 1


@pytest.mark.parametrize("code", ["node_failed", "launch_failed", None])
def test_a_run_that_ends_in_another_way_is_not_resumed(
    world: World, interrupted: InterruptedRuns, code: str | None
) -> None:
    run_id = world.started("Lasting")
    world.begin(run_id)
    assert world.close(run_id, "failed" if code else "cancelled", error_code=code, error_message=code and "x")
    interrupted.round()
    assert world.count("runs") == 1


def test_at_most_three_runs_in_a_row_follow_by_themselves(world: World, interrupted: InterruptedRuns) -> None:
    run_id = lost(world)
    for _ in range(3):
        interrupted.round()
        assert not warnings(world, run_id)
        run_id = follows(world, run_id)
        lose(world, run_id)
    interrupted.round()
    assert not world.get(run_id).HasField("resumed_by")
    assert "three" in warnings(world, run_id)
    assert world.count("runs") == 4


def test_a_person_who_resumes_takes_the_place_of_the_service(world: World, interrupted: InterruptedRuns) -> None:
    run_id = lost(world)
    answer = world.runs("ResumeRun", runs_pb2.ResumeRunRequest(run_id=run_id, idempotency_key="mine"))
    interrupted.round()
    assert follows(world, run_id) == answer.run.summary.run_id
    assert (world.count("runs"), warnings(world, run_id)) == (2, "")


def test_several_backends_start_one_run(world: World, interrupted: InterruptedRuns, tmp_path: Path) -> None:
    lost_runs = [lost(world) for _ in range(6)]
    others = [interrupted, follower(world, tmp_path), follower(world, tmp_path)]
    threads = [threading.Thread(target=each.round) for each in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    interrupted.round()
    assert len({follows(world, run_id) for run_id in lost_runs}) == 6
    assert world.count("runs") == 12


def revoke(world: World, run_id: str) -> None:
    world.keys("RevokeKey", keys_pb2.RevokeKeyRequest(key_id=world.key))


def use_up_the_quota(world: World, run_id: str) -> None:
    world.services.database.write(lambda tx: tx.run(Command(update(api_keys).values(daily_run_quota=1))))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (revoke, "revoked"),
        (use_up_the_quota, "quota"),
        (lambda world, _: world.switch("Lasting", active=False), "not active"),
    ],
)
def test_a_refused_resume_is_told_on_the_run(
    world: World, interrupted: InterruptedRuns, change: Callable[[World, str], None], why: str
) -> None:
    run_id = lost(world)
    change(world, run_id)
    interrupted.round()
    interrupted.round()
    run = world.get(run_id, key=None)
    assert not run.HasField("resumed_by")
    (warning,) = run.summary.warnings
    assert why in warning
    assert world.count("runs") == 1


def test_an_erased_run_is_not_resumed(world: World, interrupted: InterruptedRuns) -> None:
    run_id = lost(world)
    world.erase(run_id)
    interrupted.round()
    assert (world.count("runs"), warnings(world, run_id)) == (1, "")


def test_a_run_waits_for_a_free_slot_of_its_key(world: World, interrupted: InterruptedRuns) -> None:
    world.key = world.new_key(max_concurrent_runs=1)
    run_id = lost(world)
    other = world.started()
    interrupted.round()
    assert not warnings(world, run_id)
    world.cancel(other)
    world.clock.advance(seconds=20)
    interrupted.round()
    assert world.get(follows(world, run_id)).resumed_from == run_id


def test_a_refusal_waits_for_the_sweep_that_would_overwrite_it(world: World, interrupted: InterruptedRuns) -> None:
    world.apply(WORKFLOW + "pii_policy: {mode: detect, stages: [outputs]}\n")
    run_id = lost(world)
    world.switch("Lasting", active=False)
    interrupted.round()
    assert not warnings(world, run_id)
    assert world.count("interruptions", "due_at IS NOT NULL") == 1


def test_the_start_of_the_run_that_follows_is_audited_as_the_services(
    world: World, interrupted: InterruptedRuns
) -> None:
    run_id = lost(world)
    interrupted.round()
    (record,) = world.dump(f"audit_records WHERE action = 'run.started' AND target = '{follows(world, run_id)}'")
    assert (record.actor, json.loads(record.details)["resumed_from"]) == ("system", run_id)
