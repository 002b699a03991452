"""Files that a person uploads, and runs that start with them."""

import errno
import io
import json
import stat
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from backend.common.errors import ApiError
from backend.services.uploads import sql
from backend.services.uploads.content import contents
from backend.services.uploads.expansion import ExpansionHaltedError
from backend.services.uploads.rules import PART_BYTES
from backend.services.uploads.servicer import UploadsServicer
from backend.storage.objects import FolderObjects, ObjectReader, StoredObject
from contract.local_context import LocalContext
from contract.metadata import ACTOR
from tests.services.calls import RefusedError
from tests.services.runtime.conftest import RuntimeWorld, agent_step, gate, manifest
from tests.services.runtime.uploading import ANA, Person, ana, reason, zipped
from tests.support.poll import until
from tests.unit.backend.runtime.bucket import Bucket, serve_bucket
from workflow_api.v1 import errors_pb2, runs_pb2, uploads_pb2, workflows_pb2

__all__ = ["ana", "serve_bucket"]


def test_a_run_gets_uploaded_files_and_the_members_of_a_zip(ana: Person) -> None:
    upload_id = ana.begin()
    long = bytes(PART_BYTES + 5)
    ana.send(upload_id, 1, "table.csv", long)
    found = ana.send(upload_id, 2, "More.ZIP", zipped({"a.txt": b"A", "deep/b.txt": b"BB", "empty/": b""}))
    assert (found.files, found.files_bytes) == (2, 3)
    assert sorted(ana.files(upload_id)) == ["More.ZIP", "table.csv"]

    run_id = ana.start("Reads", upload_id).run.summary.run_id
    row = ana.world.until_ended(run_id)
    assert json.loads(row.result) == {"uploads/a.txt": 1, "uploads/deep/b.txt": 2, "uploads/table.csv": len(long)}
    (entry,) = json.loads(row.inputs_manifest)
    assert (entry["parameter"], entry["objects"], entry["bytes"]) == ("uploads", 3, len(long) + 3)
    assert {item["key"] for item in entry["items"]} == {"table.csv", "a.txt", "deep/b.txt"}


def test_uploaded_files_are_kept_for_a_run_that_goes_on_with_another_worker(ana: Person, tmp_path: Path) -> None:
    steps = [gate("look"), agent_step("read", "sizes", "look")]
    ana.world.workflows |= ana.world.apply(manifest("Reads later", steps, result={"step": "read"}))
    upload_id = ana.begin()
    ana.send(upload_id, 1, "table.csv", b"a,b")
    ana.send(upload_id, 2, "more.zip", zipped({"a.txt": b"A", "deep/b.txt": b"BB"}))
    run_id = ana.start("Reads later", upload_id).run.summary.run_id
    ana.world.until_status(run_id, "waiting_for_approval")
    ana.world.local_runtime.stop()
    ana.world.clock.advance(hours=2)
    ana.world.removals.round()
    ana.world.local_runtime = ana.world.new_runtime(tmp_path / "another", sandbox="none")
    ana.world.local_runtime.start()
    waiting = ana.world.runs("ListRunApprovals", runs_pb2.ListRunApprovalsRequest(run_id=run_id), actor=ANA)
    ana.world.decide(waiting.items[0].approval_id, True)
    result = json.loads(ana.world.until_ended(run_id).result)
    assert result == {"uploads/a.txt": 1, "uploads/deep/b.txt": 2, "uploads/table.csv": 3}


def test_a_start_that_is_sent_again_answers_its_run_and_another_one_cannot_have_the_files(ana: Person) -> None:
    upload_id = ana.begin()
    ana.send(upload_id, 1, "a.txt", b"A")
    first, again = ana.start("Reads", upload_id), ana.start("Reads", upload_id)
    assert (first.run.summary.run_id, again.replayed) == (again.run.summary.run_id, True)
    assert "choose them again" in reason(lambda: ana.start("Reads", upload_id, "another"))
    assert reason(lambda: ana.send(upload_id, 2, "b.txt", b"B")) == "not_found"


def test_an_upload_is_its_persons_alone(ana: Person) -> None:
    upload_id = ana.begin()
    ana.send(upload_id, 1, "a.txt", b"A")
    ana.name = "user:bob"
    assert reason(lambda: ana.files(upload_id)) == "not_found"
    assert reason(lambda: ana.append(upload_id, 2, "b.txt", b"B")) == "not_found"
    assert "choose them again" in reason(lambda: ana.start("Reads", upload_id))


def test_an_upload_that_nobody_uses_is_gone_after_an_hour(ana: Person) -> None:
    unused, begun = ana.begin(), ana.begin()
    ana.send(unused, 1, "a.zip", zipped({"a": b"A"}))
    ana.append(begun, 1, "half.bin", bytes(PART_BYTES))
    ana.world.removals.round()
    assert ana.stored(unused)
    ana.world.clock.advance(hours=1)
    assert "choose them again" in reason(lambda: ana.start("Reads", unused))
    ana.world.removals.round()
    assert not ana.stored(unused)
    assert not ana.stored(begun)
    assert ana.world.count("uploads", "1 = 1") == ana.world.count("upload_files", "1 = 1") == 0


def test_an_upload_outlasts_a_step_of_the_clock_back_but_none_of_days(ana: Person) -> None:
    upload_id = ana.begin()
    ana.send(upload_id, 1, "a.txt", b"A")
    ana.world.clock.advance(hours=-2)
    ana.world.removals.round()
    assert ana.stored(upload_id)
    ana.world.clock.advance(days=-30)
    ana.world.removals.round()
    assert not ana.stored(upload_id)


def test_erasing_a_run_removes_its_uploaded_files(ana: Person) -> None:
    upload_id = ana.begin()
    ana.send(upload_id, 1, "a.txt", b"A")
    run_id = ana.start("Reads", upload_id).run.summary.run_id
    ana.world.until_ended(run_id)
    ana.world.clock.advance(hours=2)
    ana.world.removals.round()
    assert ana.stored(upload_id)
    ana.world.runs("EraseRunData", runs_pb2.EraseRunDataRequest(run_id=run_id), actor=ANA)
    assert ana.world.count("upload_files", "1 = 1") == 0
    ana.world.removals.round()
    until(lambda: not ana.stored(upload_id), "the removal of the objects")
    assert ana.world.count("uploads", "1 = 1") == 0


def test_the_policy_of_a_run_sweeps_uploaded_files(ana: Person) -> None:
    policy = {"mode": "redact", "categories": ["EMAIL_ADDRESS"], "stages": ["inputs"]}
    fields = {"result": {"step": "read"}, "pii_policy": policy}
    ana.world.workflows |= ana.world.apply(manifest("Swept reads", [agent_step("read", "emails")], **fields))
    upload_id = ana.begin()
    ana.send(upload_id, 1, "people.csv", b"name,mail\nAnn,ann@example.com\n")
    run_id = ana.start("Swept reads", upload_id).run.summary.run_id
    result = ana.world.until_ended(run_id).result
    assert "[EMAIL_ADDRESS]" in result
    assert "ann@example.com" not in result


def test_parts_are_taken_in_order_and_once(ana: Person) -> None:
    upload_id = ana.begin()
    part = bytes(PART_BYTES)
    assert ana.append(upload_id, 1, "a.bin", part) == PART_BYTES
    assert ana.append(upload_id, 1, "a.bin", part) == PART_BYTES
    assert "must be 1,048,576" in reason(lambda: ana.append(upload_id, 1, "a.bin", part, 2 * PART_BYTES))
    assert "at most 1,048,576" in reason(lambda: ana.append(upload_id, 2, "a.bin", bytes(PART_BYTES + 1)))
    assert "multiple" in reason(lambda: ana.append(upload_id, 1, "a.bin", b"x", 7))
    assert ana.files(upload_id) == []


class Overtaken(FolderObjects):
    """A store in which one operation is overtaken by other calls."""

    overtake: Callable[[], object] | None = None
    at = "put_bytes"

    def put_bytes(self, key: str, data: bytes) -> StoredObject:
        self._reached("put_bytes")
        return super().put_bytes(key, data)

    def put_file(self, key: str, source: Path) -> StoredObject:
        self._reached("put_file")
        return super().put_file(key, source)

    def open_range(self, key: str, offset: int, length: int) -> ObjectReader:
        self._reached("open_range")
        return super().open_range(key, offset, length)

    def _reached(self, operation: str) -> None:
        if operation == self.at and self.overtake is not None:
            overtake, self.overtake = self.overtake, None
            overtake()


@pytest.mark.parametrize(("late", "whole"), [(b"short", b"the longer"), (b"the longer", b"short")])
def test_a_part_that_comes_late_with_another_length_leaves_a_finished_file_as_it_is(
    world: RuntimeWorld, tmp_path: Path, late: bytes, whole: bytes
) -> None:
    objects = Overtaken(tmp_path / "objects")
    bob = Person(world, tmp_path, objects=objects)
    upload_id = bob.begin()
    objects.overtake = lambda: bob.send(upload_id, 1, "a.txt", whole)
    assert bob.append(upload_id, 1, "a.txt", late) == len(whole)
    (file,) = world.services.database.snapshot(lambda tx: sql.files(tx, upload_id))
    assert [(path, b"".join(parts)) for path, parts in contents(objects, file)] == [("a.txt", whole)]
    bob.service.close()


@pytest.fixture
def overtaken(world: RuntimeWorld, tmp_path: Path) -> Iterator[tuple[Person, Overtaken]]:
    objects = Overtaken(tmp_path / "objects")
    person = Person(world, tmp_path, objects=objects)
    yield person, objects
    person.service.close()


@pytest.mark.parametrize("operation", ["open_range", "put_file"])
def test_a_zip_that_two_calls_finish_at_a_time_is_there_for_both(
    overtaken: tuple[Person, Overtaken], operation: str
) -> None:
    ana, objects = overtaken
    upload_id = ana.begin()
    ana.append(upload_id, 1, "a.zip", zipped({"a.txt": b"A", "b.txt": b"BB"}))
    first: list[Any] = []
    objects.at, objects.overtake = operation, lambda: first.append(ana.finish(upload_id, 1))
    assert ana.finish(upload_id, 1) == first[0]
    assert first[0].files == 2
    (file,) = ana.world.services.database.snapshot(lambda tx: sql.files(tx, upload_id))
    assert {path: b"".join(parts) for path, parts in contents(objects, file)} == {"a.txt": b"A", "b.txt": b"BB"}


def test_a_zip_that_lacks_room_stays_where_another_call_has_finished_it(overtaken: tuple[Person, Overtaken]) -> None:
    ana, objects = overtaken
    upload_id = ana.begin()
    ana.append(upload_id, 1, "a.zip", zipped({"a.txt": b"A"}))

    def finish_then_fill() -> None:
        ana.finish(upload_id, 1)
        raise OSError(errno.ENOSPC, "no space left on device")

    objects.at, objects.overtake = "put_file", finish_then_fill
    assert ana.finish(upload_id, 1).files == 1
    assert ana.files(upload_id) == ["a.zip"]


def test_a_part_that_lacks_room_stays_where_another_call_has_stored_it(overtaken: tuple[Person, Overtaken]) -> None:
    ana, objects = overtaken
    upload_id = ana.begin()

    def send_then_fill() -> None:
        ana.send(upload_id, 1, "a.txt", b"whole")
        raise OSError(errno.ENOSPC, "no space left on device")

    objects.overtake = send_then_fill
    assert ana.append(upload_id, 1, "a.txt", b"whole") == 5
    assert ana.files(upload_id) == ["a.txt"]


@pytest.mark.parametrize("operation", ["open_range", "put_file"])
def test_a_file_that_is_removed_while_it_is_finished_leaves_the_next_of_its_number_alone(
    overtaken: tuple[Person, Overtaken], operation: str
) -> None:
    ana, objects = overtaken
    upload_id = ana.begin()
    ana.append(upload_id, 1, "a.zip", zipped({"a.txt": b"A"}))

    def replace() -> None:
        request = uploads_pb2.RemoveUploadedFileRequest(upload_id=upload_id, number=1)
        ana.call("RemoveUploadedFile", request, actor=ANA)
        ana.send(upload_id, 1, "b.txt", b"B")

    objects.at, objects.overtake = operation, replace
    with pytest.raises(RefusedError):
        ana.finish(upload_id, 1)
    assert ana.files(upload_id) == ["b.txt"]
    (file,) = ana.world.services.database.snapshot(lambda tx: sql.files(tx, upload_id))
    assert [(path, b"".join(parts)) for path, parts in contents(objects, file)] == [("b.txt", b"B")]


@pytest.mark.parametrize("name", ["../a", "a/b", "..", "a\x01b", "a\\b", "con\u202etxt"])
def test_a_name_that_is_no_plain_file_name_is_refused(ana: Person, name: str) -> None:
    assert "is not a plain file name" in reason(lambda: ana.append(ana.begin(), 1, name, b"x"))


def test_a_third_zip_at_once_is_refused_until_another_has_ended(ana: Person) -> None:
    upload_id, expansion = ana.begin(), ana.service.expansion
    ana.append(upload_id, 1, "a.zip", zipped({"a": b"A"}))
    request = uploads_pb2.FinishUploadedFileRequest(upload_id=upload_id, number=1)
    with expansion.slot():
        with expansion.slot(), pytest.raises(RefusedError) as refused:
            ana.call("FinishUploadedFile", request, actor=ANA)
        assert (refused.value.reason, refused.value.retry_after) == ("rate_limited", 5)
        assert refused.value.message.startswith("'a.zip' was not expanded")
        assert ana.call("FinishUploadedFile", request, actor=ANA).files == 1


def test_a_zip_that_nobody_waits_for_is_expanded_no_further_and_can_be_finished_later(
    ana: Person, tmp_path: Path
) -> None:
    upload_id, data = ana.begin(), zipped({"a": b"A"})
    ana.append(upload_id, 1, "a.zip", data)
    request = uploads_pb2.FinishUploadedFileRequest(upload_id=upload_id, number=1)
    gone = LocalContext(((ACTOR, ANA),), 60)
    gone.cancel()
    with pytest.raises(ApiError) as ended:
        UploadsServicer(ana.service).FinishUploadedFile(request, gone)
    assert ended.value.reason == errors_pb2.ERROR_REASON_RUNTIME_UNREACHABLE

    halt = threading.Event()

    def ending() -> Iterator[bytes]:
        yield data
        halt.set()

    with pytest.raises(ExpansionHaltedError):
        ana.service.expansion.expand(ending(), tmp_path, ANA, 1_000, halt)
    assert ana.call("FinishUploadedFile", request, actor=ANA).files == 1


def test_two_files_cannot_have_one_path(ana: Person) -> None:
    upload_id = ana.begin()
    ana.send(upload_id, 1, "a.txt", b"A")
    assert reason(lambda: ana.send(upload_id, 2, "a.txt", b"B")) == "'a.txt' is there twice"
    assert "'a.txt/b'" in reason(lambda: ana.send(upload_id, 3, "b.zip", zipped({"a.txt/b": b"B"})))
    assert ana.files(upload_id) == ["a.txt"]
    ana.send(upload_id, 4, "a.txt", b"B", parameter="documents")


def test_files_stand_in_for_a_parameter_within_its_limits(ana: Person, bucket: Bucket) -> None:
    world = ana.world
    connector = {"kind": "Connector", "name": "inbox", "type": "s3", "bucket": "docs", "endpoint_url": bucket.url}
    world.apply(json.dumps(connector))
    assert world.workflow_calls("TestConnector", workflows_pb2.TestConnectorRequest(name="inbox")).passed
    parameters = [{"name": "documents", "type": "s3_prefix", "connector": "inbox", "required": True, "max_objects": 1}]
    steps = [agent_step("read", "sizes")]
    world.workflows |= world.apply(manifest("Documents", steps, parameters=parameters, result={"step": "read"}))
    upload_id = ana.begin()
    ana.send(upload_id, 1, "a.txt", b"A", parameter="documents")
    given = {"documents": "s3://docs/in/"}
    assert "both" in reason(lambda: ana.start("Documents", upload_id, parameters=given))
    run = ana.start("Documents", upload_id, "second").run
    assert json.loads(run.parameters) == {"documents": f"upload://{upload_id}/documents/"}
    assert json.loads(world.until_ended(run.summary.run_id).result) == {"documents/a.txt": 1}

    upload_id = ana.begin()
    ana.send(upload_id, 1, "a.zip", zipped({"a": b"", "b": b""}), parameter="documents")
    assert "may have 1" in reason(lambda: ana.start("Documents", upload_id, "third"))
    assert "takes files" in reason(lambda: ana.start("Reads", upload_id, "fourth"))


def hostile(change: str) -> bytes:
    """A zip that is refused."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        name = {"up": "../up", "absolute": "/etc/x", "drive": "C:x", "backslash": "..\\x"}.get(change, "good")
        info = zipfile.ZipInfo(name)
        if change == "link":
            info.external_attr = (stat.S_IFLNK | 0o777) << 16
        if change == "device":
            info.external_attr = (stat.S_IFCHR | 0o777) << 16
        archive.writestr(info, b"x" * 100)
        if change == "folder":
            archive.writestr("good/more", b"")
        if change == "many":
            for number in range(2_000):
                archive.writestr(str(number), b"")
    data = bytearray(buffer.getvalue())
    directory = data.rfind(b"PK\x01\x02")
    if change == "encrypted":
        data[directory + 8] |= 1
    if change == "size":
        data[directory + 24 : directory + 28] = (7).to_bytes(4, "little")
    if change == "bomb":
        data[directory + 24 : directory + 28] = (600_000_000).to_bytes(4, "little")
    if change == "checksum":
        data[directory + 16] ^= 1
    if change == "local":
        data[30] ^= 1
    if change == "place":
        data[-6:-2] = (0xFFFFFF).to_bytes(4, "little")
    return bytes(data[:-30] if change == "cut" else data)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("up", "'../up' that leads out"),
        ("absolute", "'/etc/x' that leads out"),
        ("drive", "'C:x' that leads out"),
        ("backslash", "leads out"),
        ("link", "'good' that is a symbolic link"),
        ("device", "'good' that is no file"),
        ("encrypted", "'good' that is encrypted"),
        ("folder", "that is both a file and a folder"),
        ("many", "more than 2,000 entries"),
        ("size", "'good' "),
        ("bomb", "more than 500,000,000 bytes"),
        ("checksum", "'good' that cannot be read"),
        ("local", "'good' that cannot be read"),
        ("place", "'good' that cannot be read"),
        ("cut", "cannot be read"),
    ],
)
def test_a_hostile_zip_is_refused_with_the_entry_and_leaves_nothing(ana: Person, change: str, why: str) -> None:
    upload_id = ana.begin()
    problem = reason(lambda: ana.send(upload_id, 1, "x.zip", hostile(change)))
    assert problem.startswith("'x.zip' ")
    assert why in problem
    assert ana.files(upload_id) == []
    assert not ana.stored(upload_id)


def test_a_zip_that_has_a_path_twice_is_refused(ana: Person) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a", b"1")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a", b"2")
    assert "'a' that is there twice" in reason(lambda: ana.send(ana.begin(), 1, "x.zip", buffer.getvalue()))
