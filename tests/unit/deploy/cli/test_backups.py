"""`workflow-api backup` says which file failed, and why."""

import errno
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from backend.services.deployment import sql as deployment_sql
from backend.storage.factory import DATABASE_FILE, DataFolder
from deploy.backup.archive import BackupError
from deploy.cli import backups

OBJECT = "runs/run_a/out_1"


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in os.environ:
        if name.startswith("WORKFLOW_API_"):
            monkeypatch.delenv(name)
    path = tmp_path / "data"
    with closing(DataFolder(path)) as folder, closing(folder.open_database()) as database:
        database.write(lambda tx: deployment_sql.get_or_create(tx, "plant-7"))
    row = ("out_1", "run_a", "a.txt", "step", "text/plain", 1, "0" * 64, 0, OBJECT, None)
    with closing(sqlite3.connect(path / DATABASE_FILE, isolation_level=None)) as connection:
        connection.execute(f"INSERT INTO outputs VALUES ({','.join('?' * len(row))})", row)
    return path


def test_an_object_that_cannot_be_read_is_named_with_the_reason(data: Path, tmp_path: Path) -> None:
    """A folder in the place of an object can be opened by nobody as a file, not even by root."""
    (data / "objects" / OBJECT).mkdir(parents=True)
    with pytest.raises(BackupError) as refused:
        backups.backup_command(str(tmp_path / "b.tar"), data=data)
    assert str(refused.value) == f"{data / 'objects' / OBJECT}: Is a directory."


def test_a_file_that_cannot_be_written_is_named_with_the_reason(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("deploy.backup.writing.os.fsync", full)
    out = tmp_path / "b.tar"
    with pytest.raises(BackupError) as refused:
        backups.backup_command(str(out), data=data)
    assert str(refused.value) == f"{out}: No space left on device."
