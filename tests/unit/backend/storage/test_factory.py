"""The data folder: one process at a time, and only the service's own user."""

import os
import sqlite3
import stat
from pathlib import Path

import pytest

from backend.services.deployment import sql as deployment_sql
from backend.storage.factory import DataFolder, DataFolderError

DATABASE = "workflow-api.sqlite3"


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.lstat().st_mode) for path in (folder, *folder.rglob("*"))}


def earlier_release(folder: Path) -> None:
    """A folder that others may read, with a database whose log is still there."""
    data = DataFolder(folder)
    data.open_database().close()
    data.close()
    (folder / "objects").mkdir()
    (folder / f"{DATABASE}-wal").touch()
    for path in (folder, *folder.iterdir()):
        path.chmod(0o755 if path.is_dir() else 0o644)


def test_a_wider_folder_of_ours_is_narrowed_with_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    earlier_release(folder)
    outside = tmp_path / "outside"
    outside.touch()
    outside.chmod(0o644)
    (folder / "link").symlink_to(outside)
    data = DataFolder(folder)
    database = data.open_database()
    database.write(lambda _: None)
    found = modes(folder)
    assert found.pop("link") == 0o777
    assert {name: mode for name, mode in found.items() if mode & 0o077} == {}
    assert stat.S_IMODE(outside.stat().st_mode) == 0o644
    database.close()
    data.close()


def test_a_new_folder_is_closed_to_others(tmp_path: Path) -> None:
    data = DataFolder(tmp_path / "deep" / "data")
    assert stat.S_IMODE(data.path.stat().st_mode) == 0o700
    data.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_a_folder_of_another_user_is_refused_by_a_sentence_and_stays_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    os.chown(folder, 65534, 65534)
    with pytest.raises(DataFolderError) as refused:
        DataFolder(folder)
    assert str(refused.value) == (
        f"The data folder cannot be used: {folder} belongs to the user nobody, and the service runs as the user root: "
        "it keeps data in a folder of its own user only."
    )
    assert (list(folder.iterdir()), stat.S_IMODE(folder.stat().st_mode)) == ([], 0o755)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_database_of_another_user_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    planted = folder / DATABASE
    sqlite3.connect(planted).close()
    planted.touch()
    os.chown(planted, 65534, 65534)
    with pytest.raises(DataFolderError, match=f"{DATABASE} belongs to the user nobody"):
        DataFolder(folder)


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    data = DataFolder(tmp_path)
    with pytest.raises(DataFolderError, match="in use by another workflow-api process"):
        DataFolder(tmp_path)
    data.close()
    DataFolder(tmp_path).close()


def test_a_database_that_exists_is_kept(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "data")
    database = folder.open_database()
    database.write(lambda tx: deployment_sql.get_or_create(tx, "plant-7"))
    database.close()
    again = folder.open_database()
    assert again.write(lambda tx: deployment_sql.get_or_create(tx, "other")).deployment_id == "plant-7"
    again.close()
    folder.close()
