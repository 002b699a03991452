"""Runs that lose their worker are resumed automatically, if their workflow says so. (docs/flows.md)"""

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import update

from backend.services.runs.resume.follow_up import InterruptedRuns
from backend.services.runs.resume.service import RunResumer
from backend.services.runs.start.service import RunStarter
from backend.services.uploads.servicer import UploadsServicer
from backend.services.uploads.staging import Uploads
from backend.storage.statements import Command
from backend.storage.tables.keys import api_keys
from tests.services.calls import Caller
from tests.services.runs.test_start_refusals import hold_licence
from tests.services.runs.world import World
from workflow_api.v1 import keys_pb2, runs_pb2, uploads_pb2

WORKFLOW = """
kind: Workflow
name: Lasting
status: active
on_interruption: resume
steps: [{step: first, agent: worker, environment: standard}]
"""


class CountedUploads(Uploads):
    """Counts its copies of uploads; `meanwhile` happens before the next one."""

    copies = 0
    meanwhile: Callable[[], object] | None = None

    def copy(self, upload_id: str, owner: str) -> str:
        self.copies += 1
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return super().copy(upload_id, owner)


def uploads_below(world: World, folder: Path) -> CountedUploads:
    return CountedUploads(world.services, world.objects, folder / "more-uploads")


def follower(world: World, uploads: Uploads) -> InterruptedRuns:
    """The rounds of another backend."""
    starter = RunStarter(world.services, world.runtime)
    return InterruptedRuns(world.services, RunResumer(world.services, starter, uploads))


@pytest.fixture
def interrupted(world: World, tmp_path: Path) -> InterruptedRuns:
    world.workflows |= world.apply(WORKFLOW)
    return follower(world, uploads_below(world, tmp_path))


def lose(world: World, run_id: str) -> None:
    """Takes the run's worker away."""
    world.begin(run_id)
    assert world.close(run_id, "failed", error_code="orphaned", error_message="x")


def lost(world: World, **fields: object) -> str:
    run_id = world.started("Lasting", **fields)
    lose(world, run_id)
    return run_id


def lost_with_a_file(world: World, uploads: Uploads) -> str:
    """A lost run of a person who has uploaded a file for it."""
    call = Caller(UploadsServicer(uploads), uploads_pb2.DESCRIPTOR.services_by_name["UploadsService"])
    upload_id = call("BeginUpload", uploads_pb2.BeginUploadRequest()).upload_id
    of_file = {"upload_id": upload_id, "number": 1}
    call("AppendToUpload", uploads_pb2.AppendToUploadRequest(**of_file, parameter="uploads", name="a.txt", data=b"A"))
    call("FinishUploadedFile", uploads_pb2.FinishUploadedFileRequest(**of_file))
    return lost(world, key=None, upload_id=upload_id)


def follows(world: World, run_id: str, key: str | None = "") -> str:
    return world.get(run_id, key).resumed_by


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


def test_at_most_three_runs_in_a_row_are_resumed_automatically(world: World, interrupted: InterruptedRuns) -> None:
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
    others = [interrupted, *(follower(world, uploads_below(world, tmp_path)) for _ in range(2))]
    threads = [threading.Thread(target=each.round) for each in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    interrupted.round()
    assert len({follows(world, run_id) for run_id in lost_runs}) == 6
    assert world.count("runs") == 12


def test_of_several_backends_one_copies_the_files_of_a_run(
    world: World, interrupted: InterruptedRuns, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = uploads_below(world, tmp_path), uploads_below(world, tmp_path)
    run_id = lost_with_a_file(world, first)
    first.meanwhile = follower(world, second).round
    follower(world, first).round()
    interrupted.round()
    assert (first.copies, second.copies) == (1, 0)
    assert world.get(follows(world, run_id, None), None).resumed_from == run_id
    assert "is not resumed" not in caplog.text


def test_a_backend_that_dies_while_it_resumes_a_run_delays_it_by_a_minute(
    world: World, interrupted: InterruptedRuns, tmp_path: Path
) -> None:
    class DiedError(BaseException):
        """The end of the process."""

    def die() -> None:
        raise DiedError

    uploads = uploads_below(world, tmp_path)
    run_id = lost_with_a_file(world, uploads)
    uploads.meanwhile = die
    with pytest.raises(DiedError):
        follower(world, uploads).round()
    interrupted.round()
    assert not follows(world, run_id, None)
    world.clock.advance(seconds=60)
    interrupted.round()
    assert world.get(follows(world, run_id, None), None).resumed_from == run_id


def test_a_run_that_a_person_resumes_meanwhile_is_not_logged_as_left(
    world: World, interrupted: InterruptedRuns, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    uploads = uploads_below(world, tmp_path)
    run_id = lost_with_a_file(world, uploads)
    resume = runs_pb2.ResumeRunRequest(run_id=run_id, idempotency_key="mine")
    uploads.meanwhile = lambda: world.runs("ResumeRun", resume)
    follower(world, uploads).round()
    interrupted.round()
    assert (uploads.copies, world.count("runs")) == (1, 2)
    assert "is not resumed" not in caplog.text


def test_a_refused_resume_that_is_tried_again_copies_no_files(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world.workflows |= world.apply(WORKFLOW + "pii_policy: {mode: detect, stages: [outputs]}\n")
    uploads = uploads_below(world, tmp_path)
    lost_with_a_file(world, uploads)
    hold_licence(world)
    for _ in range(3):
        follower(world, uploads).round()
        world.clock.advance(seconds=20)
    assert (uploads.copies, world.count("interruptions", "due_at IS NOT NULL")) == (0, 1)
    assert "is not resumed" not in caplog.text, "it is not decided yet"


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
    assert warning.startswith("It is not resumed automatically: ")
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
