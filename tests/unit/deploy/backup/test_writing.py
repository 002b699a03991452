"""Backups of a data folder that changes meanwhile."""

import errno
import fcntl
import io
import os
import shutil
import sqlite3
import stat
import tarfile
import tempfile
import threading
from contextlib import closing
from pathlib import Path

import pytest

from backend.storage.factory import RESTORING_FILE
from deploy.backup.archive import DIGESTS, MANIFEST, ArchiveWriter, BackupError
from deploy.backup.restoring import restore_backup
from deploy.backup.snapshot import reading, scratch_folder, take_snapshot
from deploy.backup.writing import new_file, write_backup
from tests.support.small_disk import SmallDisk
from tests.unit.deploy.backup.conftest import CONTENT, add_output, connect, source_of, stored


class ChangingSink(io.BytesIO):
    """Has a run erased and another one made once the first bytes are written."""

    def __init__(self, data: Path) -> None:
        super().__init__()
        self._data: Path | None = data

    def write(self, data: object) -> int:
        if self._data is not None:
            with closing(connect(self._data)) as database:
                database.execute("DELETE FROM outputs WHERE run_id = 'run_b'")
            shutil.rmtree(self._data / "objects/runs/run_b")
            add_output(self._data, "runs/run_c/out_3", b"third")
            self._data = None
        return super().write(data)  # type: ignore[arg-type]  # a buffer


def test_the_archive_is_a_tar_that_sha256sum_can_check(backup: Path) -> None:
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    with tarfile.open(backup) as archive:
        names = archive.getnames()
        digests = archive.extractfile(DIGESTS)
        assert digests is not None
        listed = [line.split("  ")[1] for line in digests.read().decode().splitlines()]
    assert sorted(listed) == sorted(names[:-2])
    assert names[-2:] == [DIGESTS, MANIFEST]
    assert {f"objects/{key}" for key in CONTENT} < set(names)


def test_a_backup_is_the_state_of_its_end_with_every_object(data: Path, tmp_path: Path) -> None:
    sink = ChangingSink(data)
    backup = write_backup(source_of(data), sink, tmp_path)
    assert (backup.manifest.objects, backup.absent) == (2, ())
    restore_backup(io.BytesIO(sink.getvalue()), tmp_path / "restored", force=False)
    assert stored(tmp_path / "restored") == {
        "runs/run_a/out_1": CONTENT["runs/run_a/out_1"],
        "runs/run_c/out_3": b"third",
    }


def test_an_object_that_is_lost_is_counted_and_the_rest_backed_up(data: Path, tmp_path: Path) -> None:
    (data / "objects/runs/run_b/out_2").unlink()
    (data / "objects/runs/run_a/out_1").write_bytes(b"damaged")
    sink = io.BytesIO()
    backup = write_backup(source_of(data), sink, tmp_path)
    assert backup.manifest.absent_objects == 2
    assert backup.absent == ("runs/run_a/out_1", "runs/run_b/out_2")
    restore_backup(io.BytesIO(sink.getvalue()), tmp_path / "restored", force=False)


def test_a_backup_that_fails_leaves_no_file(data: Path, tmp_path: Path) -> None:
    (data / "workflow-api.sqlite3").write_bytes(b"no database" * 1000)
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(BackupError, match="cannot be read"), new_file(out / "b.tar") as file:
        write_backup(source_of(data), file, out)
    assert list(out.iterdir()) == []


def test_a_full_disk_leaves_no_file(data: Path, tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path / "disk", 1)
    try:
        with pytest.raises((OSError, BackupError)), new_file(disk.folder / "b.tar") as file:
            write_backup(source_of(data), file, disk.folder)
        assert list(disk.folder.iterdir()) == []
    finally:
        disk.close()


def test_an_unfinished_backup_is_in_a_folder_that_the_next_one_removes(data: Path, tmp_path: Path) -> None:
    out, killed = tmp_path / "out", tmp_path / "killed"
    out.mkdir()
    with new_file(out / "b.tar"):
        [unfinished] = out.iterdir()
        shutil.copytree(unfinished, killed / unfinished.name)
    assert [path.name for path in out.iterdir()] == ["b.tar"]
    assert [path.name for path in (killed / unfinished.name).iterdir()] == ["b.tar"]
    write_backup(source_of(data), io.BytesIO(), killed)
    assert list(killed.iterdir()) == []


def test_an_existing_file_is_kept(data: Path, backup: Path) -> None:
    before = backup.read_bytes()
    with pytest.raises(BackupError, match="exists already"), new_file(backup) as file:
        write_backup(source_of(data), file, backup.parent)
    assert backup.read_bytes() == before


def test_a_file_that_is_made_meanwhile_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "b.tar"
    with pytest.raises(BackupError, match="exists already"), new_file(path):
        path.write_bytes(b"theirs")
    assert path.read_bytes() == b"theirs"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_gets_its_name_where_links_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(path: Path, target: Path) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(Path, "hardlink_to", no_links)
    path = tmp_path / "b.tar"
    with new_file(path) as file:
        file.write(b"ours")
    assert path.read_bytes() == b"ours"
    with pytest.raises(BackupError, match="exists already"), new_file(tmp_path / "c.tar"):
        (tmp_path / "c.tar").write_bytes(b"theirs")
    assert (tmp_path / "c.tar").read_bytes() == b"theirs"


def test_an_object_that_became_shorter_ends_the_backup(tmp_path: Path) -> None:
    with ArchiveWriter(io.BytesIO()) as archive, pytest.raises(EOFError, match="objects/runs/a/b"):
        archive.add("objects/runs/a/b", io.BytesIO(b"short"), 6)


def test_an_object_whose_content_cannot_be_read_is_named() -> None:
    # Its first page is mapped in no process.
    with (
        ArchiveWriter(io.BytesIO()) as archive,
        Path("/proc/self/mem").open("rb") as file,
        pytest.raises(OSError, match="Input/output error") as failure,
    ):
        archive.add("objects/runs/a/b", file, 6)
    assert failure.value.filename == "objects/runs/a/b"


def test_an_error_of_the_sink_is_raised_unchanged(tmp_path: Path) -> None:
    class Failing(io.BytesIO):
        def write(self, data: object) -> int:
            raise OSError("unexpected end of data")

    with pytest.raises(OSError, match="unexpected end of data"), ArchiveWriter(Failing()) as archive:
        archive.add("objects/runs/a/b", io.BytesIO(bytes(1_000_000)), 1_000_000)


def test_a_folder_that_another_backup_removes_before_it_is_held_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = tempfile.mkdtemp
    made: list[Path] = []

    def make_and_lose(prefix: str, dir: Path) -> str:  # noqa: A002 - its name
        folder = make(prefix=prefix, dir=dir)
        made.append(Path(folder))
        if len(made) == 1:
            with scratch_folder(tmp_path):
                pass
        return folder

    monkeypatch.setattr("deploy.backup.snapshot.tempfile.mkdtemp", make_and_lose)
    with scratch_folder(tmp_path) as folder:
        assert list(tmp_path.iterdir()) == [folder] == [made[-1]]
        with scratch_folder(tmp_path):
            assert folder.exists()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_another_backup_is_removing_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = tempfile.mkdtemp
    removing: list[threading.Thread] = []

    def make_and_meet(prefix: str, dir: Path) -> str:  # noqa: A002 - its name
        folder = make(prefix=prefix, dir=dir)
        if not removing:
            handle = os.open(folder, os.O_RDONLY)
            fcntl.flock(handle, fcntl.LOCK_EX)

            def remove() -> None:
                Path(folder).rmdir()
                os.close(handle)

            removing.append(threading.Thread(target=remove))
            removing[0].start()
        return folder

    monkeypatch.setattr("deploy.backup.snapshot.tempfile.mkdtemp", make_and_meet)
    with scratch_folder(tmp_path) as folder:
        assert folder.exists()
    removing[0].join()


def test_the_copy_of_the_database_waits_for_no_disk(data: Path, tmp_path: Path) -> None:
    settings: list[int] = []

    def examine(copy: sqlite3.Connection) -> None:
        settings.append(copy.execute("PRAGMA synchronous").fetchone()[0])

    with reading(data / "workflow-api.sqlite3") as live, closing(take_snapshot(live, tmp_path, examine).file):
        assert settings == [0]


def test_what_a_killed_backup_has_left_goes_with_the_next(data: Path, tmp_path: Path) -> None:
    left = tmp_path / ".workflow-api-backup-left"
    left.mkdir()
    (left / "workflow-api.sqlite3").write_bytes(b"content")
    write_backup(source_of(data), io.BytesIO(), tmp_path)
    assert not left.exists()


def test_a_folder_with_half_a_backup_is_not_backed_up(data: Path, tmp_path: Path) -> None:
    (data / RESTORING_FILE).touch()
    with pytest.raises(BackupError, match="half of a backup"):
        write_backup(source_of(data), io.BytesIO(), tmp_path)
