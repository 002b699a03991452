"""Uploads within the bounds of a person and of the disk."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.services.uploads.content import free_bytes
from backend.services.uploads.rules import MOST_FILE_BYTES, PART_BYTES, reserved_bytes
from backend.storage.objects import FolderObjects
from tests.services.runtime.conftest import RuntimeWorld
from tests.services.runtime.uploading import ANA, Person, ana, reason, zipped
from tests.support.small_disk import SmallDisk
from workflow_api.v1 import uploads_pb2

__all__ = ["ana"]


def test_a_file_that_is_too_large_is_refused(ana: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backend.services.uploads.rules.MOST_FILE_BYTES", 10)
    assert MOST_FILE_BYTES == 100_000_000
    assert "'a.bin' has more than 10 bytes" in reason(lambda: ana.append(ana.begin(), 1, "a.bin", bytes(11)))
    monkeypatch.undo()
    monkeypatch.setattr("backend.services.uploads.rules.MOST_BYTES_OF_PERSON", 20)
    ana.append(ana.begin(), 1, "a.bin", bytes(15))
    assert "wait for a start" in reason(lambda: ana.append(ana.begin(), 1, "b.bin", bytes(6)))


def test_uploads_without_files_do_not_count_against_those_of_a_person(
    ana: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backend.services.uploads.rules.MOST_UPLOADS_OF_PERSON", 2)
    for number in range(4):
        assert "is not a plain file name" in reason(lambda: ana.append(ana.begin(), 1, "../a", b"x")), number
    for _ in range(2):
        ana.append(ana.begin(), 1, "a.bin", b"x")
    assert "2 uploads wait for a start" in reason(ana.begin)


def test_uploads_without_files_have_a_bound_of_their_own(ana: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backend.services.uploads.rules.MOST_BEGUN_OF_PERSON", 3)
    for _ in range(3):
        ana.begin()
    assert "3 uploads wait for a start" in reason(ana.begin)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    disk = SmallDisk(tmp_path / "disk", 20)
    yield disk
    disk.close()


@pytest.fixture
def cramped(world: RuntimeWorld, disk: SmallDisk) -> Iterator[Person]:
    """A person whose files are stored on a small disk."""
    person = Person(world, disk.folder, objects=FolderObjects(disk.folder / "objects"))
    yield person
    person.service.close()


def parts(disk: SmallDisk) -> list[Path]:
    return [path for path in (disk.folder / "objects").rglob("*") if path.is_file()]


def test_uploads_leave_room_on_the_disk_and_are_taken_again_when_there_is_more(
    cramped: Person, disk: SmallDisk
) -> None:
    upload_id = cramped.begin()
    assert "no room" in reason(lambda: cramped.send(upload_id, 1, "large.bin", bytes(30 * PART_BYTES)))
    usage = shutil.disk_usage(disk.folder)
    assert usage.free >= reserved_bytes(usage.total) == usage.total // 10
    assert parts(disk)
    request = uploads_pb2.RemoveUploadedFileRequest(upload_id=upload_id, number=1)
    cramped.call("RemoveUploadedFile", request, actor=ANA)
    cramped.send(upload_id, 2, "small.bin", bytes(PART_BYTES))
    assert cramped.files(upload_id) == ["small.bin"]


def test_a_zip_that_expands_to_more_than_there_is_room_for_is_refused(cramped: Person, disk: SmallDisk) -> None:
    large = zipped({"zeros": bytes(12 * PART_BYTES)})
    assert "more than the service has room for" in reason(lambda: cramped.send(cramped.begin(), 1, "a.zip", large))
    assert not parts(disk)


def test_a_file_that_fills_the_disk_is_refused_and_gives_its_room_back(
    cramped: Person, disk: SmallDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload_id = cramped.begin()
    cramped.append(upload_id, 1, "a.bin", bytes(PART_BYTES))
    disk.fill()
    # Something else took the room after it was looked at.
    monkeypatch.setattr("backend.services.uploads.staging.free_bytes", lambda _: MOST_FILE_BYTES)
    assert "no room" in reason(lambda: cramped.append(upload_id, 1, "a.bin", bytes(PART_BYTES), PART_BYTES))
    assert not parts(disk)
    cramped.append(upload_id, 2, "b.zip", zipped({"b": b"B"}))
    disk.fill()
    request = uploads_pb2.FinishUploadedFileRequest(upload_id=upload_id, number=2)
    assert "no room" in reason(lambda: cramped.call("FinishUploadedFile", request, actor=ANA))
    assert not parts(disk)
    monkeypatch.undo()
    disk.relieve()
    assert free_bytes([disk.folder]) > PART_BYTES


def test_what_a_zip_expands_to_counts_against_the_bytes_of_a_person(
    ana: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload_id, data = ana.begin(), zipped({"a.txt": bytes(5_000)})
    monkeypatch.setattr("backend.services.uploads.rules.MOST_BYTES_OF_PERSON", 4_999)
    assert "wait for a start" in reason(lambda: ana.send(upload_id, 1, "a.zip", data))
    monkeypatch.setattr("backend.services.uploads.rules.MOST_BYTES_OF_PERSON", 5_000)
    ana.send(upload_id, 2, "a.zip", data)
