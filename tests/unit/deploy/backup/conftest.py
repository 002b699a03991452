"""A data folder with two outputs, as a service leaves it."""

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from backend.services.deployment import sql as deployment_sql
from backend.storage.factory import DATABASE_FILE, DataFolder
from deploy.backup.writing import Source, new_file, write_backup

CONTENT = {"runs/run_a/out_1": b"first " * 100_000, "runs/run_b/out_2": b"second"}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    with closing(DataFolder(path)) as folder, closing(folder.open_database()) as database:
        database.write(lambda tx: deployment_sql.get_or_create(tx, "plant-7"))
    for key, content in CONTENT.items():
        add_output(path, key, content)
    return path


@pytest.fixture
def backup(data: Path, tmp_path: Path) -> Path:
    path = tmp_path / "data.tar"
    with new_file(path) as file:
        write_backup(source_of(data), file, tmp_path)
    return path


def source_of(data: Path) -> Source:
    return Source(data, data / "objects")


def connect(data: Path) -> sqlite3.Connection:
    return sqlite3.connect(data / DATABASE_FILE, isolation_level=None)


def add_output(data: Path, key: str, content: bytes) -> None:
    """Writes an output's object, then its row."""
    path = data / "objects" / key
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    _, run_id, output_id = key.split("/")
    row = (
        output_id,
        run_id,
        output_id,
        "step",
        "text/plain",
        len(content),
        hashlib.sha256(content).hexdigest(),
        0,
        key,
        None,
    )
    with closing(connect(data)) as database:
        database.execute(f"INSERT INTO outputs VALUES ({','.join('?' * len(row))})", row)


def stored(data: Path) -> dict[str, bytes]:
    """Returns the objects that rows name."""
    with closing(connect(data)) as database:
        keys = [key for (key,) in database.execute("SELECT object_key FROM outputs")]
    return {key: (data / "objects" / key).read_bytes() for key in keys}


def files_below(folder: Path) -> Iterator[str]:
    return (str(path.relative_to(folder)) for path in sorted(folder.rglob("*")) if path.is_file())
