"""Originals that no row names, as a fault or a crash leaves them, go with the final sweep. (contract 21.11)"""

import contextlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from backend.runtime.outcomes import ORPHANED
from backend.services.dependencies import Services
from backend.services.outputs.sql import add_shared_files, outputs_of
from backend.services.runs.erasure import Removals
from backend.settings import ObjectSettings
from backend.storage.objects import FolderObjects, ObjectStore, StoredObject, open_objects
from backend.storage.objects.bucket import PIECE_BYTES
from backend.storage.tables.files import SharedFileRow
from tests.services.conftest import TestClock
from tests.services.runs.world import World
from tests.services.runtime.conftest import RuntimeWorld, agent_step, gate, manifest
from tests.services.runtime.sweeping import Sweeping
from tests.support.poll import until
from tests.support.s3_server import S3Server


class StoredWorld(Sweeping):
    """Final sweeps over a store of any kind, whose `keys` are those of all its objects and of unfinished uploads."""

    def __init__(self, world: World, objects: ObjectStore, folder: Path, keys: Callable[[], set[str]]) -> None:
        world.objects = objects
        super().__init__(world, folder)
        self.keys = keys

    def names(self, run_id: str) -> set[str]:
        """The keys of a run's objects below its prefix."""
        prefix = f"runs/{run_id}/"
        return {key.removeprefix(prefix) for key in self.keys() if key.startswith(prefix)}

    def named(self, run_id: str) -> list[str]:
        """The keys that rows of outputs name."""
        rows = self.world.services.database.read(lambda tx: outputs_of(tx, run_id))
        return [row.object_key for row in rows]


@pytest.fixture(params=["folder", "bucket", "versions"])
def sweeping(
    request: pytest.FixtureRequest, services: Services, clock: TestClock, tmp_path: Path, caplog: Any
) -> StoredWorld:
    caplog.set_level(logging.CRITICAL)
    world = World(services, clock, tmp_path)
    if request.param == "folder":
        root = tmp_path / "stored"

        def files() -> set[str]:
            return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}

        return StoredWorld(world, FolderObjects(root), tmp_path / "sweeps", files)
    server: S3Server = request.getfixturevalue("s3_server")
    server.fill("kept", {})
    if request.param == "versions":
        server.s3.put_bucket_versioning(Bucket="kept", VersioningConfiguration={"Status": "Enabled"})
    settings = ObjectSettings(store="s3", bucket="kept", prefix="dep/", endpoint_url=server.url)

    def keys() -> set[str]:
        found = server.s3.list_object_versions(Bucket="kept")
        uploads = server.s3.list_multipart_uploads(Bucket="kept").get("Uploads", [])
        listed = [*found.get("Versions", []), *found.get("DeleteMarkers", []), *uploads]
        return {one["Key"].removeprefix("dep/") for one in listed}

    return StoredWorld(world, open_objects(settings, tmp_path), tmp_path / "sweeps", keys)


def leave(sweeping: StoredWorld, run_id: str, name: str = "out_left") -> None:
    """An object of a step whose row was never written."""
    sweeping.world.objects.put_bytes(f"runs/{run_id}/{name}", b"personal")


def share(sweeping: StoredWorld, run_id: str) -> None:
    """A file that a step left for later steps alone."""
    key = f"runs/{run_id}/shared/first/shared_1"
    sweeping.world.objects.put_bytes(key, b"personal")
    row = SharedFileRow(key, run_id, "first/personal.txt", "first", 8)
    sweeping.world.services.database.write(lambda tx: add_shared_files(tx, [row]))


def test_an_original_that_no_row_names_goes_with_the_final_sweep(sweeping: StoredWorld) -> None:
    run_id = sweeping.finished()
    leave(sweeping, run_id)
    sweeping.sweep()
    assert [name.endswith("-swept") for name in sweeping.names(run_id)] == [True]
    assert sweeping.world.count("pending_deletions") == 0


def test_shared_files_that_no_row_names_go_with_the_final_sweep(sweeping: StoredWorld) -> None:
    run_id = sweeping.finished()
    leave(sweeping, run_id, "shared/first/shared_left")
    sweeping.sweep()
    assert [name.endswith("-swept") for name in sweeping.names(run_id)] == [True]


def test_shared_files_of_a_completed_run_are_removed_and_those_of_a_failed_one_stay_to_be_resumed(
    sweeping: StoredWorld,
) -> None:
    world = sweeping.world
    completed, failed, still = (world.started() for _ in range(3))
    for one in (completed, failed, still):
        world.begin(one)
        leave(sweeping, one)
        share(sweeping, one)
    world.close(completed, "completed")
    world.close(failed, "failed")
    sweeping.sweep()
    assert sweeping.names(completed) == set()
    for kept in (failed, still):
        assert sweeping.names(kept) == {"out_left", "shared/first/shared_1"}
    assert {row.run_id for row in world.dump("shared_files")} == {failed, still}
    assert world.count("pending_deletions") == 0


def test_shared_files_of_a_failed_run_that_is_swept_go_with_the_sweep(sweeping: StoredWorld) -> None:
    world = sweeping.world
    run_id = world.started("Swept")
    world.begin(run_id)
    share(sweeping, run_id)
    world.close(run_id, "failed")
    sweeping.sweep()
    assert sweeping.names(run_id) == set()
    assert not world.dump("shared_files")


def test_an_erasure_right_after_the_end_forgets_shared_files(sweeping: StoredWorld) -> None:
    world = sweeping.world
    run_id = world.started()
    world.begin(run_id)
    share(sweeping, run_id)
    world.close(run_id, "failed")
    world.erase(run_id)
    assert world.count("shared_files") == 0
    Removals(world.services.database, world.objects, world.runtime.remove_left, world.clock).round()
    sweeping.sweep()
    assert sweeping.names(run_id) == set()
    assert world.count("pending_deletions") == 0


@pytest.mark.parametrize("sweeping", ["folder"], indirect=True)
@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_originals_of_a_run_that_ends_otherwise_go_too(sweeping: StoredWorld, status: str) -> None:
    run_id = sweeping.world.started("Swept", pii_policy_override={"mode": "redact"})
    sweeping.world.begin(run_id)
    leave(sweeping, run_id)
    sweeping.world.close(run_id, status)
    sweeping.sweep()
    assert sweeping.names(run_id) == set()


def test_all_that_rows_or_the_layout_of_the_store_name_stays(sweeping: StoredWorld) -> None:
    world = sweeping.world
    run_id, still, unredacted = sweeping.finished(), world.started("Swept"), world.started()
    leave(sweeping, run_id)
    kept = [
        f"runs/{run_id}/logs/first-1",
        f"runs/{run_id}/reviews/apr_1",
        f"runs/{run_id}0/out_1",
        f"runs/{still}/out_1",
        f"runs/{unredacted}/out_1",
        "uploads/upl_1/1/0-8",
    ]
    for key in kept:
        world.objects.put_bytes(key, b"kept")
    sweeping.sweep()
    assert sweeping.keys() == {*sweeping.named(run_id), *kept}


def test_a_listing_that_fails_delays_nothing_and_is_tried_again(
    sweeping: StoredWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = sweeping.finished()
    leave(sweeping, first)
    with monkeypatch.context() as fault:
        fault.setattr(sweeping.world.objects, "delete_chosen", _refuse)
        sweeping.sweep()
        second = sweeping.finished()
        sweeping.sweep()
    assert [sweeping.world.row(run_id).redaction_state for run_id in (first, second)] == ["done", "done"]
    assert "out_left" in sweeping.names(first)
    assert len(sweeping.names(first)) == 2, "the originals that rows named are gone"
    sweeping.world.clock.advance(seconds=1)
    sweeping.sweep()
    assert "out_left" not in sweeping.names(first)
    assert sweeping.world.count("pending_deletions") == 0


@pytest.mark.parametrize("sweeping", ["folder"], indirect=True)
@pytest.mark.parametrize(
    ("policy", "listings"),
    [
        ({"mode": "redact"}, 1),
        ({"mode": "redact", "stages": ["inputs", "steps"]}, 0),
        ({"mode": "detect"}, 0),
    ],
)
def test_only_runs_whose_outputs_are_redacted_are_listed_and_once(
    sweeping: StoredWorld, monkeypatch: pytest.MonkeyPatch, policy: dict[str, Any], listings: int
) -> None:
    asked: list[str] = []
    remove = sweeping.world.objects.delete_chosen

    def counted(prefix: str, chosen: Callable[[str], bool]) -> None:
        asked.append(prefix)
        remove(prefix, chosen)

    monkeypatch.setattr(sweeping.world.objects, "delete_chosen", counted)
    sweeping.world.workflows |= sweeping.world.apply(manifest("Policy", [gate("first")], pii_policy=policy))
    run_id = sweeping.world.started("Policy")
    sweeping.world.begin(run_id)
    sweeping.world.output(run_id, "first/a.txt", b"personal")
    sweeping.world.close(run_id)
    for _ in range(3):
        sweeping.sweep()
    assert asked == [f"runs/{run_id}/"] * listings


@pytest.mark.parametrize("sweeping", ["folder"], indirect=True)
def test_a_run_that_is_erased_before_the_listing_keeps_nothing(sweeping: StoredWorld) -> None:
    run_id = sweeping.finished()
    leave(sweeping, run_id)
    for sweep in sweeping.sweeps.round():
        sweep.result()
    sweeping.world.erase(run_id)
    sweeping.sweep()
    sweeping.world.objects.delete_prefix(f"runs/{run_id}/")
    assert sweeping.names(run_id) == set()
    assert sweeping.world.count("pending_deletions") == 0


@pytest.mark.parametrize("sweeping", ["bucket"], indirect=True)
def test_an_upload_of_an_original_that_a_crash_cut_off_ends(sweeping: StoredWorld, s3_server: S3Server) -> None:
    run_id = sweeping.finished()
    upload = s3_server.s3.create_multipart_upload(Bucket="kept", Key=f"dep/runs/{run_id}/out_left")
    part = {"Key": upload["Key"], "UploadId": upload["UploadId"], "PartNumber": 1, "Body": bytes(PIECE_BYTES)}
    s3_server.s3.upload_part(Bucket="kept", **part)
    log = f"runs/{run_id}/logs/first-1"
    s3_server.s3.create_multipart_upload(Bucket="kept", Key=f"dep/{log}")
    sweeping.sweep()
    left = sweeping.keys()
    assert f"runs/{run_id}/out_left" not in left
    assert log in left


@pytest.mark.parametrize("sweeping", ["folder"], indirect=True)
def test_a_sweep_by_two_processes_leaves_what_the_first_one_released(
    sweeping: StoredWorld, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # As when the database loses a session, and with it the name that the first process holds.
    monkeypatch.setattr(
        sweeping.world.services.database, "try_advisory_lock", lambda _: contextlib.nullcontext(enter_result=True)
    )
    run_id = sweeping.finished()

    def sweep_elsewhere() -> None:
        sweeping.redactor.before = lambda: None
        Sweeping(sweeping.world, tmp_path / "elsewhere").sweep()

    sweeping.redactor.before = sweep_elsewhere
    sweeping.sweep()
    sweeping.sweep()
    assert sweeping.keys() == set(sweeping.named(run_id)) != set()
    assert sweeping.world.count("pending_deletions") == 0


class Late(FolderObjects):
    """Stores the files of steps once they may be, and removes nothing while it is away."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.may_store: Callable[[], bool] = lambda: True
        self.away = False
        self.refused = 0

    def put_file(self, key: str, source: Path) -> StoredObject:
        until(self.may_store, "the time to store")
        self.away = True
        return super().put_file(key, source)

    def delete(self, key: str) -> None:
        self._reach()
        super().delete(key)

    def delete_chosen(self, prefix: str, chosen: Callable[[str], bool]) -> None:
        self._reach()
        super().delete_chosen(prefix, chosen)

    def _reach(self) -> None:
        if self.away:
            self.refused += 1
            raise OSError("the store is away")


@pytest.fixture
def late_world(services: Services, clock: TestClock, tmp_path: Path) -> Iterator[RuntimeWorld]:
    world = RuntimeWorld(services, clock, tmp_path)
    world.objects = Late(tmp_path / "late")
    world.local_runtime = world.new_runtime(tmp_path / "data")
    world.local_runtime.start()
    yield world
    world.local_runtime.stop()


def test_what_a_step_stores_after_the_sweep_goes_as_well(
    late_world: RuntimeWorld, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    world, objects = late_world, late_world.objects
    assert isinstance(objects, Late)
    run_id = world.run("Prints", [agent_step("say", "printer")], workflow={"pii_policy": {"mode": "redact"}})

    def swept() -> bool:
        return world.row(run_id).redaction_state == "done" and world.count("pending_deletions") == 0

    objects.may_store = swept
    until(
        lambda: any(event.type == "redaction.started" and event.step for event in world.events(run_id).events),
        "the sweep of what the step hands on",
    )
    # As another process does that takes this one for dead, while its step goes on.
    world.services.database.write(lambda tx: ORPHANED.close(tx, run_id, world.clock()))
    until(lambda: objects.refused, "the step's own try to remove it")
    until(lambda: world.count("pending_deletions"), "the order to remove it")
    objects.away = False
    world.clock.advance(seconds=600)
    until(lambda: world.count("pending_deletions") == 0, "the removal")
    assert not [path for path in world.folder.joinpath("late", "runs", run_id).iterdir() if path.is_file()]


def _refuse(*_: Any) -> None:
    raise OSError("the store is away")
