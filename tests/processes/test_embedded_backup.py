"""`workflow-api backup` beside a service under load, and what is restored of it."""

import hashlib
import io
import json
import subprocess
import threading
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import grpc
import pytest

from backend.services.uploads.rules import PART_BYTES
from deploy.backup.object_lists import named_objects
from deploy.backup.snapshot import reading
from tests.support.admin import Credentials
from tests.support.client import Caller
from tests.support.part import COMMAND, refused
from tests.support.poll import until
from tests.support.service import Service
from workflow_api.v1 import uploads_pb2, users_pb2
from workflow_api.v1.uploads_pb2_grpc import UploadsServiceStub

pytestmark = pytest.mark.long

BACKUPS = 3
FLOWS = ("Files", "Tree", "Echo", "Wrong result")


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Service]:
    folder = tmp_path / "serving"
    folder.mkdir()
    service = Service(folder)
    service.start()
    yield service
    service.stop()


@dataclass
class Acknowledged:
    """What the service has acknowledged: finished runs with their outputs, erasures that were asked for and done."""

    runs: dict[str, tuple[dict[str, Any], dict[str, str]]] = field(default_factory=dict)
    erasing: set[str] = field(default_factory=set)
    erased: set[str] = field(default_factory=set)
    uploads: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def copy(self) -> "Acknowledged":
        with self.lock:
            return Acknowledged({**self.runs}, {*self.erasing}, {*self.erased}, self.uploads)


def digests(caller: Caller, run_id: str) -> dict[str, str]:
    """Returns the digests of a run's outputs, which their bytes have."""
    outputs = caller.outputs(run_id)
    for output in outputs.values():
        content = caller.get(output["download"]["path"].removeprefix("/api/v1"))
        assert (content.status, hashlib.sha256(content.body).hexdigest()) == (200, output["sha256"])
    return {path: output["sha256"] for path, output in outputs.items()}


def run_and_erase(caller: Caller, flows: dict[str, str], done: Acknowledged, ended: threading.Event, seed: int) -> None:
    random = Random(seed)
    while not ended.is_set():
        run_id = caller.finished(flows[random.choice(FLOWS)], input_text="x" * random.randrange(2_000))["run_id"]
        record = caller.run(run_id), digests(caller, run_id)
        with done.lock:
            done.runs[run_id] = record
            kept = [run for run in done.runs if run not in done.erasing]
            chosen = random.choice(kept) if random.random() < 0.4 else None
            if chosen is not None:
                done.erasing.add(chosen)
        if chosen is not None:
            assert caller.delete(f"/runs/{chosen}/data").status == 202
            with done.lock:
                done.erased.add(chosen)


def upload(stub: UploadsServiceStub, done: Acknowledged, ended: threading.Event) -> None:
    """Uploads a file and a zip, again and again; the parts of a zip are removed once its members are stored."""
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("member.txt", Random(1).randbytes(PART_BYTES + 1))
    actor = (("workflow-api-actor", "user:ana"),)
    while not ended.is_set() and done.uploads < 40:
        upload_id = stub.BeginUpload(uploads_pb2.BeginUploadRequest(), metadata=actor).upload_id
        for number, (name, content) in enumerate(
            {"a.bin": b"a" * (PART_BYTES + 7), "b.zip": zipped.getvalue()}.items()
        ):
            for offset in range(0, len(content), PART_BYTES):
                request = uploads_pb2.AppendToUploadRequest(
                    upload_id=upload_id,
                    number=number,
                    parameter="uploads",
                    name=name,
                    offset=offset,
                    data=content[offset:][:PART_BYTES],
                )
                stub.AppendToUpload(request, metadata=actor)
            stub.FinishUploadedFile(
                uploads_pb2.FinishUploadedFileRequest(upload_id=upload_id, number=number), metadata=actor
            )
        done.uploads += 1


@contextmanager
def load(service: Service, caller: Caller, flows: dict[str, str]) -> Iterator[Acknowledged]:
    done, ended = Acknowledged(), threading.Event()
    with grpc.insecure_channel(service.ready["grpc"]) as channel, ThreadPoolExecutor() as threads:
        working = [threads.submit(run_and_erase, caller, flows, done, ended, seed) for seed in range(3)]
        working.append(threads.submit(upload, UploadsServiceStub(channel), done, ended))
        try:
            yield done
        finally:
            ended.set()
        for one in working:
            one.result()


def workflow_api(*arguments: str | Path) -> dict[str, Any]:
    ended = subprocess.run([COMMAND, *arguments, "--json"], capture_output=True, text=True, timeout=300, check=False)
    assert (ended.returncode, ended.stderr) == (0, ""), ended
    return dict(json.loads(ended.stdout))


def every_object_is_whole(data: Path) -> int:
    """Holds every object that a row names against its file; returns how many there are."""
    count = 0
    with reading(data / "workflow-api.sqlite3") as database:
        for named in named_objects(database):
            content = (data / "objects" / named.key).read_bytes()
            assert len(content) == named.size
            assert named.sha256 in {None, hashlib.sha256(content).hexdigest()}
            count += 1
    return count


def test_backups_under_load_have_all_that_was_acknowledged_and_nothing_half(serving: Service, tmp_path: Path) -> None:
    flows = serving.admin.apply_test_workflows()
    serving.admin.add_user("ana", users_pb2.ROLE_ADMINISTRATOR)
    caller = serving.new_caller()
    data = Path(serving.ready["data"])
    taken: list[tuple[Path, Acknowledged, Acknowledged]] = []
    with load(serving, caller, flows) as done:
        for number in range(BACKUPS):
            have = len(done.runs)
            until(lambda have=have: len(done.runs) >= have + 5, "more runs")  # type: ignore[misc]  # bound at once
            before, folder = done.copy(), tmp_path / str(number)
            folder.mkdir()
            made = workflow_api("backup", "--data", data, "--out", folder)
            assert made["absent_objects"] == 0
            taken.append((Path(made["file"]), before, done.copy()))
    assert done.erased
    assert done.uploads
    for out, before, after in taken:
        folder = out.parent
        workflow_api("restore", out, "--data", folder / "data")
        assert every_object_is_whole(folder / "data") > 0
        restored = Service(folder)
        restored.start()
        try:
            again = restored.caller(Credentials(caller.key_id, caller.key, caller.external_id))
            for run_id, record in before.runs.items():
                if run_id not in after.erasing:
                    assert (again.run(run_id), digests(again, run_id)) == record
            for run_id in before.erased:
                assert again.run(run_id)["data_purged_at"] is not None
                assert again.outputs(run_id) == {}
            for run in again.get("/runs", limit=100).json()["items"]:
                digests(again, run["run_id"]) if run["finished_at"] else None
            assert again.finished(flows["Echo"], input_text="x")["status"] == "completed"
        finally:
            restored.stop()


def killed(command: list[str | Path], when: Callable[[], bool]) -> None:
    """Starts a command, and kills it once it is there."""
    process = subprocess.Popen([COMMAND, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(when, "the moment to kill", seconds=60)
    process.kill()
    process.wait(timeout=60)


def test_a_killed_backup_or_restore_is_never_taken_for_a_whole_one(serving: Service, tmp_path: Path) -> None:
    flows = serving.admin.apply_test_workflows()
    caller = serving.new_caller()
    runs = [caller.finished(flows["Whale"], parameters={"size": 20_000_000})["run_id"] for _ in range(3)]
    expected = {run_id: digests(caller, run_id) for run_id in runs}
    data, out, target = Path(serving.ready["data"]), tmp_path / "b.tar", tmp_path / "again" / "data"

    killed(["backup", "--data", data, "--out", out], lambda: any(tmp_path.glob(".workflow-api-backup-*/b.tar")))
    assert not out.exists()
    workflow_api("backup", "--data", data, "--out", out)
    assert not list(tmp_path.glob(".workflow-api-backup-*"))
    assert serving.call("GET", "/health").status == 200

    killed(["restore", out, "--data", target], lambda: any(target.glob(".workflow-api-restore/objects/runs/*")))
    assert "half of a backup" in refused("serve", "--data", str(target), "--http", "127.0.0.1:0")
    workflow_api("restore", out, "--data", target)
    restored = Service(target.parent)
    restored.start()
    try:
        again = restored.caller(Credentials(caller.key_id, caller.key, caller.external_id))
        assert {run_id: digests(again, run_id) for run_id in runs} == expected
    finally:
        restored.stop()


def erased_since(service: Service, taken_at: str) -> list[str]:
    """Returns the runs that an export of the audit trail names, as docs/operators-guide.md says."""
    since = ("audit", "--action", "run.erased", "--since", taken_at, "--export", "jsonl")
    said = subprocess.run(
        [COMMAND, *since, "--grpc", service.ready["grpc"]], check=True, capture_output=True, text=True, timeout=60
    )
    return [json.loads(line)["target"] for line in said.stdout.splitlines()]


def test_what_was_erased_after_a_backup_is_erased_again_by_the_audit_trail(serving: Service, tmp_path: Path) -> None:
    flows = serving.admin.apply_test_workflows()
    caller = serving.new_caller()
    before, after = (caller.finished(flows["Files"])["run_id"] for _ in range(2))
    assert caller.delete(f"/runs/{before}/data").status == 202
    out = tmp_path / "b.tar"
    made = workflow_api("backup", "--data", Path(serving.ready["data"]), "--out", out)
    assert caller.delete(f"/runs/{after}/data").status == 202
    assert erased_since(serving, made["taken_at"]) == [after]
    workflow_api("restore", out, "--data", tmp_path / "data")
    restored = Service(tmp_path)
    restored.start()
    try:
        again = restored.caller(Credentials(caller.key_id, caller.key, caller.external_id))
        assert (len(again.outputs(before)), len(again.outputs(after))) == (0, 3)
        workflow_api("runs", "erase", after, "--grpc", restored.ready["grpc"])
        assert again.outputs(after) == {}
    finally:
        restored.stop()


def test_a_backup_in_a_pipe_is_restored_from_a_pipe(serving: Service, tmp_path: Path) -> None:
    flows = serving.admin.apply_test_workflows()
    caller = serving.new_caller()
    run_id = caller.finished(flows["Tree"])["run_id"]
    expected = digests(caller, run_id)
    serving.stop()
    backup = subprocess.Popen(
        [COMMAND, "backup", "--data", serving.ready["data"], "--out", "-"], stdout=subprocess.PIPE
    )
    command: list[str | Path] = [COMMAND, "restore", "-", "--data", tmp_path / "data"]
    subprocess.run(command, stdin=backup.stdout, check=True, timeout=120, capture_output=True)
    assert backup.stdout is not None
    backup.stdout.close()
    assert backup.wait(timeout=60) == 0
    restored = Service(tmp_path)
    restored.start()
    try:
        again = restored.caller(Credentials(caller.key_id, caller.key, caller.external_id))
        assert digests(again, run_id) == expected
    finally:
        restored.stop()
