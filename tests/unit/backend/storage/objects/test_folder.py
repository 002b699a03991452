"""What only a folder has to do: leave no remains of a write that did not end."""

import os
from pathlib import Path

import pytest

from backend.storage.objects import FolderObjects


def test_a_failed_store_leaves_no_remains(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        FolderObjects(tmp_path).put_bytes("runs/run_1/out_1", "text")  # type: ignore[arg-type]
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []


def test_a_store_whose_content_is_not_synced_leaves_no_remains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    objects = FolderObjects(tmp_path)

    def broken(_: int) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr("os.fsync", broken)
    with pytest.raises(OSError, match="gone"):
        objects.put_bytes("runs/run_1/out_1", b"text")
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []


def test_content_that_replaces_another_is_synced_before_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = FolderObjects(tmp_path)
    objects.put_bytes("runs/run_1/out_1", b"old")

    def broken(_: int) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr("os.fsync", broken)
    with pytest.raises(OSError, match="gone"):
        objects.put_bytes("runs/run_1/out_1", b"new")
    assert b"".join(objects.open_range("runs/run_1/out_1", 0, 3)) == b"old"


def test_what_a_crash_left_half_written_is_gone_at_the_next_start(tmp_path: Path) -> None:
    FolderObjects(tmp_path).put_bytes("runs/run_1/out_1", b"kept")
    (tmp_path / ".incoming" / "half").write_bytes(b"remains")
    again = FolderObjects(tmp_path)
    assert list((tmp_path / ".incoming").iterdir()) == []
    assert b"".join(again.open_range("runs/run_1/out_1", 0, 4)) == b"kept"


def test_a_start_leaves_alone_what_others_are_writing_to_a_folder_that_they_share(tmp_path: Path) -> None:
    FolderObjects(tmp_path, shared=True)
    incoming = tmp_path / ".incoming"
    for name in ("now", "yesterday"):
        (incoming / name).write_bytes(b"half")
    os.utime(incoming / "yesterday", (0, 0))
    FolderObjects(tmp_path, shared=True)
    assert [file.name for file in incoming.iterdir()] == ["now"]
