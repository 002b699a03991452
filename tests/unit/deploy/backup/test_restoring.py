"""Restores check everything before they put anything in place."""

import errno
import io
import os
import stat
import tarfile
from collections.abc import Callable
from contextlib import closing
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Self

import pytest

from backend.storage.factory import RESTORING_FILE, DataFolder, DataFolderError
from deploy.backup.archive import MANIFEST, BackupError
from deploy.backup.restoring import restore_backup
from deploy.backup.writing import write_backup
from tests.support.small_disk import SmallDisk
from tests.unit.deploy.backup.conftest import CONTENT, connect, files_below, source_of, stored

Member = tuple[tarfile.TarInfo, bytes]


def restored(backup: Path | bytes, data: Path, *, force: bool = False) -> None:
    with io.BytesIO(backup if isinstance(backup, bytes) else backup.read_bytes()) as source:
        restore_backup(source, data, force=force)


def changed(backup: Path, change: Callable[[list[Member]], list[Member]]) -> bytes:
    """Returns the archive with other members."""
    with tarfile.open(backup) as archive:
        members = []
        for member in archive:
            content = archive.extractfile(member)
            assert content is not None
            members.append((member, content.read()))
    result = io.BytesIO()
    with tarfile.open(fileobj=result, mode="w") as archive:
        for member, data in change(members):
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return result.getvalue()


def link(name: str, target: str) -> Member:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, target
    return member, b""


def refused(backup: bytes, folder: Path, reason: str) -> None:
    """A restore is refused, and leaves nothing of the folder."""
    with pytest.raises(BackupError, match=reason):
        restored(backup, folder)
    assert not folder.exists()


def test_a_backup_is_restored_with_its_objects_and_nothing_else(backup: Path, tmp_path: Path) -> None:
    target = tmp_path / "restored"
    restored(backup, target)
    assert stored(target) == CONTENT
    assert set(files_below(target)) == {
        "workflow-api.sqlite3",
        "workflow-api.lock",
        *(f"objects/{key}" for key in CONTENT),
    }
    with closing(DataFolder(target)) as folder, closing(folder.open_database()) as database:
        assert database.healthy()


CHANGES: dict[str, tuple[str, Callable[[list[Member]], list[Member]]]] = {
    "another byte": (
        "another digest",
        lambda found: [(member, b"X" + data[1:] if "out_2" in member.name else data) for member, data in found],
    ),
    "an object missing": ("is missing", lambda found: [each for each in found if "out_2" not in each[0].name]),
    "a list that was changed": (
        "list of digests",
        lambda found: [(member, data[:-1] if member.name == "files.sha256" else data) for member, data in found],
    ),
    "another database": (
        "another digest",
        lambda found: [(member, data + b"x" if "sqlite3" in member.name else data) for member, data in found],
    ),
    "no end": ("its end is missing", lambda found: found[:-1]),
    "a later form": (
        "form 2",
        lambda found: [
            (member, data.replace(b'"format": 1', b'"format": 2') if member.name == MANIFEST else data)
            for member, data in found
        ],
    ),
    "a path that leads out": ("no backup has", lambda found: [(tarfile.TarInfo("objects/runs/../../x"), b"x"), *found]),
    "an absolute path": ("no backup has", lambda found: [(tarfile.TarInfo("/objects/runs/a/b"), b"x"), *found]),
    "a link": ("is no file", lambda found: [link("objects/runs/run_a", "/etc"), *found]),
}


@pytest.mark.parametrize(("reason", "change"), CHANGES.values(), ids=CHANGES)
def test_a_backup_that_was_changed_is_refused(
    reason: str, change: Callable[[list[Member]], list[Member]], backup: Path, tmp_path: Path
) -> None:
    refused(changed(backup, change), tmp_path / "restored", reason)


@pytest.mark.parametrize("part", [0.0, 0.3, 0.6, 0.9])
def test_a_part_of_a_backup_is_refused(part: float, backup: Path, tmp_path: Path) -> None:
    whole = backup.read_bytes()
    refused(whole[: int(len(whole) * part)], tmp_path / "restored", "not whole")


@pytest.mark.parametrize("after", ["the header of the manifest", "half of the manifest"])
def test_a_backup_cut_within_its_manifest_is_refused(after: str, backup: Path, tmp_path: Path) -> None:
    with tarfile.open(backup) as archive:
        manifest = archive.getmember(MANIFEST)
    kept = manifest.offset_data + (manifest.size // 2 if after == "half of the manifest" else 0)
    refused(backup.read_bytes()[:kept], tmp_path / "restored", "not whole")


def test_the_backup_of_a_later_release_is_refused(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(connect(data)) as database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(BackupError, match="use a newer one"):
        write_backup(source_of(data), io.BytesIO(), tmp_path)
    sink = io.BytesIO()
    with monkeypatch.context() as later:
        later.setattr("deploy.backup.snapshot.known_revisions", lambda: {"9999"})
        write_backup(source_of(data), sink, tmp_path)
    refused(sink.getvalue(), tmp_path / "restored", "use a newer one")


def test_an_earlier_schema_is_left_to_the_start_of_the_service(data: Path, tmp_path: Path) -> None:
    with closing(connect(data)) as database:
        database.execute("UPDATE alembic_version SET version_num = '0012'")
        database.execute("DROP TABLE upload_files")
    sink = io.BytesIO()
    manifest = write_backup(source_of(data), sink, tmp_path).manifest
    assert manifest.schema == "0012"
    restored(sink.getvalue(), tmp_path / "restored")


def test_a_folder_with_content_is_kept_unless_it_is_forced(backup: Path, data: Path) -> None:
    with pytest.raises(BackupError, match="not empty"):
        restored(backup, data)
    restored(backup, data, force=True)
    (aside,) = data.glob("before-restore-*")
    assert stored(data) == stored(aside) == CONTENT


def test_a_folder_can_be_forced_twice_within_a_second(
    backup: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stopped(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return cls(2026, 11, 23, tzinfo=tz)

    monkeypatch.setattr("deploy.backup.restoring.datetime", Stopped)
    for _ in range(3):
        restored(backup, data, force=True)
    assert stored(data) == CONTENT
    assert {path.name for path in data.rglob("before-restore-*")} == {
        "before-restore-20261123T000000Z",
        "before-restore-20261123T000000Z-2",
    }


def test_a_refused_restore_leaves_the_folders_that_were_there_and_those_alone(tmp_path: Path) -> None:
    with pytest.raises(BackupError, match="not whole"):
        restored(b"", tmp_path / "new" / "data")
    assert list(tmp_path.iterdir()) == []
    mounted = tmp_path / "mounted"
    mounted.mkdir(mode=0o700)
    with pytest.raises(BackupError, match="not whole"):
        restored(b"", mounted)
    assert list(mounted.iterdir()) == []


def test_a_folder_named_by_mistake_stays_as_it_is(backup: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "shared").mkdir(parents=True)
    home.chmod(0o755)
    (home / "shared").chmod(0o755)
    with pytest.raises(BackupError, match="not empty"):
        restored(backup, home)
    assert [path.name for path in home.iterdir()] == ["shared"]
    assert [stat.S_IMODE(path.stat().st_mode) for path in (home, home / "shared")] == [0o755, 0o755]


def test_a_restore_that_cannot_begin_leaves_the_folder_to_its_service(
    backup: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, mode: int = 0o777, *, parents: bool = False, exist_ok: bool = False) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as begun:
        begun.setattr("deploy.backup.restoring.shutil.rmtree", lambda *_, **__: begun.setattr(Path, "mkdir", full))
        with pytest.raises(OSError, match="No space left"):
            restored(backup, data, force=True)
    with closing(DataFolder(data)):
        assert stored(data) == CONTENT


def test_a_folder_in_use_is_refused(backup: Path, data: Path) -> None:
    with closing(DataFolder(data)), pytest.raises(BackupError, match="in use"):
        restored(backup, data, force=True)


def test_no_service_starts_on_half_a_restore_and_another_restore_completes_it(backup: Path, tmp_path: Path) -> None:
    target = tmp_path / "restored"
    target.mkdir()
    (target / RESTORING_FILE).touch()
    (target / ".workflow-api-restore" / "objects").mkdir(parents=True)
    with pytest.raises(DataFolderError, match="half of a backup"):
        DataFolder(target)
    with pytest.raises(BackupError):
        restored(b"", target)
    assert (target / RESTORING_FILE).exists()
    restored(backup, target)
    assert not (target / RESTORING_FILE).exists()
    assert stored(target) == CONTENT


@pytest.mark.parametrize("renamed", range(2))
def test_a_restore_killed_while_it_puts_files_in_place_is_completed_by_another(
    renamed: int, backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "restored"
    with monkeypatch.context() as killed:
        killed.setattr(Path, "rename", ended_after(renamed))
        with pytest.raises(KeyboardInterrupt):
            restored(backup, target)
    assert (target / RESTORING_FILE).exists()
    restored(backup, target)
    assert not (target / RESTORING_FILE).exists()
    assert stored(target) == CONTENT


@pytest.mark.parametrize("renamed", range(4))
def test_a_forced_restore_killed_while_it_renames_loses_nothing_of_the_former_content(
    renamed: int, backup: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    former = list(files_below(data))
    with monkeypatch.context() as killed:
        killed.setattr(Path, "rename", ended_after(renamed))
        with pytest.raises(KeyboardInterrupt):
            restored(backup, data, force=True)
    restored(backup, data)
    assert stored(data) == CONTENT
    kept = [name for name in files_below(data) if name.startswith("before-restore-")]
    assert all(any(path.endswith(f"/{name}") for path in kept) for name in former if "lock" not in name)


def ended_after(renamed: int) -> Callable[[Path, Path], Path]:
    """Returns `Path.rename` of a process that is killed after so many calls of it."""
    rename, left = Path.rename, [None] * renamed

    def limited(path: Path, target: Path) -> Path:
        if not left:
            raise KeyboardInterrupt
        left.pop()
        return rename(path, target)

    return limited


def test_a_full_disk_leaves_nothing(backup: Path, tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path / "disk", 1)
    try:
        with pytest.raises(OSError, match="No space left"):
            restored(backup, disk.folder)
        assert list(disk.folder.iterdir()) == []
    finally:
        disk.close()


def test_what_was_published_to_a_graph_in_a_folder_is_published_again(data: Path, tmp_path: Path) -> None:
    with closing(connect(data)) as database:
        for graph, definition in (("kg_1", "{}"), ("kg_2", '{"store": "sparql"}')):
            database.execute(
                "INSERT INTO resource_versions (resource_id, version, definition, created_at) VALUES (?, 1, ?, 0)",
                (graph, definition),
            )
            kept = "INSERT INTO publications VALUES ('run_a', ?, 1, '{}', 'kept', 0, 2, 0, NULL, NULL)"
            database.execute(kept, (graph,))
    sink = io.BytesIO()
    write_backup(source_of(data), sink, tmp_path)
    restored(sink.getvalue(), tmp_path / "restored")
    with closing(connect(tmp_path / "restored")) as database:
        states = dict(database.execute("SELECT graph_id, state FROM publications").fetchall())
    assert states == {"kg_1": "pending", "kg_2": "kept"}
