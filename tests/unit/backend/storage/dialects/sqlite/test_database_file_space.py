"""The embedded database's file shrinks after deletions, between the changes of others."""

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, Text, delete, insert, select

from backend.storage.dialects.sqlite import database_file
from backend.storage.dialects.sqlite.database import SqliteDatabase
from backend.storage.factory import DataFolder
from backend.storage.statements import Command, ScalarQuery
from tests.support.poll import until

MEBIBYTE = 1024 * 1024
NOTES = Table("notes", MetaData(), Column("number", Integer, primary_key=True), Column("text", Text, nullable=False))
ADD = Command(insert(NOTES), ["number", "text"])
ALL = ScalarQuery[int](select(NOTES.c.number).order_by(NOTES.c.number))
CLEAR = Command(delete(NOTES).where(NOTES.c.number < 1_000))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "notes.sqlite3"


@pytest.fixture
def database(path: Path) -> Iterator[SqliteDatabase]:
    prepare(path)
    make_table(path)
    database = SqliteDatabase(path)
    yield database
    database.close()


def prepare(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        database_file.enable_incremental_vacuum(connection, path)


def make_table(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE notes (number INTEGER PRIMARY KEY, text TEXT NOT NULL)")
    connection.close()


def fill(database: SqliteDatabase, mebibytes: int, first: int = 0) -> None:
    rows = [{"number": first + n, "text": "x" * (MEBIBYTE // 4)} for n in range(4 * mebibytes)]
    database.write(lambda tx: tx.many(ADD, rows))


def clear(database: SqliteDatabase) -> None:
    database.write(lambda tx: tx.run(CLEAR))


def size_of(path: Path) -> int:
    """Of the database with its log."""
    return sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))


def is_sound(path: Path) -> bool:
    connection = sqlite3.connect(path)
    try:
        return bool(connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)])
    finally:
        connection.close()


def test_a_file_shrinks_to_what_it_holds_and_little_more(database: SqliteDatabase, path: Path) -> None:
    fill(database, 8)
    fill(database, 1, first=1_000)
    clear(database)
    assert path.stat().st_size > 9 * MEBIBYTE
    database.reclaim_space(lambda: True)
    assert size_of(path) < 3 * MEBIBYTE
    assert len(database.read(lambda tx: tx.scalars(ALL))) == 4
    assert is_sound(path)


def test_changes_go_on_while_a_file_shrinks(database: SqliteDatabase, path: Path) -> None:
    """A change gets its turn between any two steps."""
    fill(database, 4)
    clear(database)
    turns: list[int] = []

    def between() -> bool:
        added = 1_000 + len(turns)
        writer = threading.Thread(target=lambda: database.write(lambda tx: tx.run(ADD, number=added, text="small")))
        writer.start()
        writer.join()
        turns.append(added)
        return True

    database.reclaim_space(between)
    assert len(turns) > 4
    assert database.read(lambda tx: tx.scalars(ALL)) == turns
    assert is_sound(path)


def test_shrinking_stops_on_request_and_continues_later(database: SqliteDatabase, path: Path) -> None:
    fill(database, 4)
    clear(database)
    database.reclaim_space(iter([True, False]).__next__)
    assert path.stat().st_size > 3 * MEBIBYTE
    database.reclaim_space(lambda: True)
    assert size_of(path) < 2 * MEBIBYTE


def test_an_open_reader_keeps_no_change_waiting_and_the_file_shrinks_after_it(
    database: SqliteDatabase, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backend.storage.dialects.sqlite.database_file.monotonic", lambda: 100 * time.monotonic())
    fill(database, 4)
    reader = sqlite3.connect(path)
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM notes").fetchone() == (16,)
    clear(database)
    database.reclaim_space(lambda: True)
    assert reader.execute("SELECT count(*) FROM notes").fetchone() == (16,)
    reader.close()
    until(lambda: size_of(path) < 3 * MEBIBYTE, "the file to shrink")


def test_a_file_of_an_earlier_release_is_rewritten_once_at_the_start(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    folder.open_database().close()
    file = tmp_path / "workflow-api.sqlite3"
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA auto_vacuum = 0")
    connection.execute("VACUUM")
    connection.close()
    assert mode_of(file) == 0
    folder.open_database().close()
    assert mode_of(file) == 2
    assert is_sound(file)
    changed = file.stat().st_mtime_ns
    prepare(file)
    assert file.stat().st_mtime_ns == changed
    folder.close()


def test_a_large_file_is_not_rewritten_and_works(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_table(path)
    monkeypatch.setattr(database_file, "LARGEST_CONVERTED_BYTES", 4096)
    prepare(path)
    assert mode_of(path) == 0
    database = SqliteDatabase(path)
    fill(database, 2)
    clear(database)
    database.reclaim_space(lambda: True)
    assert path.stat().st_size > 2 * MEBIBYTE
    database.close()


def mode_of(path: Path) -> int:
    connection = sqlite3.connect(path)
    try:
        return int(connection.execute("PRAGMA auto_vacuum").fetchone()[0])
    finally:
        connection.close()
