import contextlib
import hashlib
import os
from pathlib import Path

import pytest

from backend.storage.objects import PART_BYTES, FolderObjects


@pytest.fixture
def objects(tmp_path: Path) -> FolderObjects:
    return FolderObjects(tmp_path / "objects")


def read(objects: FolderObjects, key: str, offset: int, length: int) -> bytes:
    return b"".join(objects.open_range(key, offset, length))


def test_a_file_is_stored_with_its_size_and_digest(objects: FolderObjects, tmp_path: Path) -> None:
    source = tmp_path / "source"
    data = os.urandom(3 * PART_BYTES + 17)
    source.write_bytes(data)
    assert objects.put_file("runs/run_1/out_1", source) == (len(data), hashlib.sha256(data).hexdigest())
    assert source.read_bytes() == data
    assert read(objects, "runs/run_1/out_1", 0, len(data)) == data


def test_bytes_are_stored_and_replaced(objects: FolderObjects) -> None:
    objects.put_bytes("runs/run_1/out_1", b"old")
    assert objects.put_bytes("runs/run_1/out_1", b"new!") == (4, hashlib.sha256(b"new!").hexdigest())
    assert read(objects, "runs/run_1/out_1", 0, 4) == b"new!"


def test_a_range_comes_in_parts_of_at_most_256_kib(objects: FolderObjects) -> None:
    data = os.urandom(2 * PART_BYTES)
    objects.put_bytes("runs/run_1/out_1", data)
    parts = list(objects.open_range("runs/run_1/out_1", 3, len(data) - 5))
    assert b"".join(parts) == data[3:-2]
    assert max(map(len, parts)) <= 256 * 1024


def test_an_empty_range_yields_nothing(objects: FolderObjects) -> None:
    objects.put_bytes("runs/run_1/out_1", b"")
    assert list(objects.open_range("runs/run_1/out_1", 0, 0)) == []


def test_a_missing_object_is_told_when_it_is_opened(objects: FolderObjects) -> None:
    with pytest.raises(KeyError):
        objects.open_range("runs/run_1/out_1", 0, 1)


def test_an_object_that_is_too_short_is_an_error(objects: FolderObjects) -> None:
    objects.put_bytes("runs/run_1/out_1", b"abc")
    with pytest.raises(EOFError):
        read(objects, "runs/run_1/out_1", 0, 4)


def test_closing_a_read_closes_the_file(objects: FolderObjects) -> None:
    objects.put_bytes("runs/run_1/out_1", bytes(2 * PART_BYTES))
    with contextlib.closing(objects.open_range("runs/run_1/out_1", 0, 2 * PART_BYTES)) as reader:
        next(reader)
    with pytest.raises(ValueError, match="closed file"):
        next(reader)


def test_a_read_that_was_opened_survives_the_removal(objects: FolderObjects) -> None:
    objects.put_bytes("runs/run_1/out_1", b"abc")
    reader = objects.open_range("runs/run_1/out_1", 0, 3)
    objects.delete_prefix("runs/run_1/")
    assert b"".join(reader) == b"abc"


def test_a_prefix_is_removed_with_all_below_it_and_nothing_beside_it(objects: FolderObjects) -> None:
    for key in ("runs/run_1/out_1", "runs/run_1/logs/step", "runs/run_10/out_1"):
        objects.put_bytes(key, b"x")
    for _ in range(2):
        objects.delete_prefix("runs/run_1/")
    for key in ("runs/run_1/out_1", "runs/run_1/logs/step"):
        with pytest.raises(KeyError):
            objects.open_range(key, 0, 1)
    assert read(objects, "runs/run_10/out_1", 0, 1) == b"x"


@pytest.mark.parametrize(
    "key",
    ["", "/etc/passwd", "../secret", "runs/../../x", "runs//x", "runs/x/", "runs/.hidden", "runs/A b", "runs/a\n"],
)
def test_a_key_that_is_not_ours_is_refused(objects: FolderObjects, tmp_path: Path, key: str) -> None:
    with pytest.raises(ValueError, match="not a key"):
        objects.put_bytes(key, b"x")
    assert not list(tmp_path.glob("secret"))


def test_a_whole_folder_cannot_be_removed_by_a_bad_prefix(objects: FolderObjects) -> None:
    objects.put_bytes("runs/run_1/out_1", b"x")
    for prefix in ("", "/", "runs/run_1", "../"):
        with pytest.raises(ValueError, match="not a"):
            objects.delete_prefix(prefix)
    assert read(objects, "runs/run_1/out_1", 0, 1) == b"x"


def test_a_failed_store_leaves_neither_object_nor_remains(objects: FolderObjects, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        objects.put_file("runs/run_1/out_1", tmp_path / "none")
    with pytest.raises(TypeError):
        objects.put_bytes("runs/run_1/out_1", "text")  # type: ignore[arg-type]
    assert [file for file in (tmp_path / "objects").rglob("*") if file.is_file()] == []


def test_what_a_crash_left_half_written_is_gone_at_the_next_start(tmp_path: Path) -> None:
    FolderObjects(tmp_path).put_bytes("runs/run_1/out_1", b"kept")
    (tmp_path / ".incoming" / "half").write_bytes(b"remains")
    again = FolderObjects(tmp_path)
    assert list((tmp_path / ".incoming").iterdir()) == []
    assert read(again, "runs/run_1/out_1", 0, 4) == b"kept"
