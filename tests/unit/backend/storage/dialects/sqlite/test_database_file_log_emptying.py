"""What is erased leaves the files of the embedded database, whoever reads them meanwhile."""

import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, Text, delete, insert, select, update

from backend.storage.database import Tx
from backend.storage.dialects.sqlite.database import SqliteDatabase
from backend.storage.statements import Command, ScalarQuery
from tests.support.poll import until

MODULE = "backend.storage.dialects.sqlite.database_file"
SECRET = "a very private sentence"
NOTES = Table("notes", MetaData(), Column("number", Integer, primary_key=True), Column("text", Text, nullable=False))
ADD = Command(insert(NOTES), ["number", "text"])
NUMBERS = ScalarQuery[int](select(NOTES.c.number))
DELETE_MOST = Command(delete(NOTES).where(NOTES.c.number < 40))
OVERWRITE = Command(update(NOTES).values(text="gone"))
STILL_THERE = (
    "Erased data is still in the files of the database, whose write-ahead log cannot be emptied now:"
    " a long reader is in the way, such as a backup or an open sqlite3 shell"
)
GONE = "The write-ahead log of the database was emptied of erased data"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "notes.sqlite3"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE notes (number INTEGER PRIMARY KEY, text TEXT NOT NULL)")
    return file


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The attempts to empty the log, of databases that are opened after it."""
    made: list[str] = []

    class Connection(sqlite3.Connection):
        def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
            if "wal_checkpoint" in sql:
                made.append(sql)
            return super().execute(sql, *arguments)

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *given, **named: connect(*given, **named, factory=Connection))
    return made


@pytest.fixture
def database(path: Path, attempts: list[str]) -> Iterator[SqliteDatabase]:
    del attempts
    database = SqliteDatabase(path)
    for number in range(50):
        add(database, number)
    yield database
    database.close()


@pytest.fixture
def pause(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the pause between attempts."""
    monkeypatch.setattr(f"{MODULE}._LOG_BUSY_MS", 10)
    return lambda seconds: monkeypatch.setattr(f"{MODULE}._PAUSE_SECONDS", seconds)


def add(database: SqliteDatabase, number: int) -> None:
    database.write(lambda tx: tx.run(ADD, number=number, text=f"{SECRET} {'x' * 500}"))


def erase(database: SqliteDatabase) -> None:
    def change(tx: Tx) -> None:
        tx.purges_deleted_content = True
        tx.run(DELETE_MOST)
        tx.run(OVERWRITE)

    database.write(change)


def files_with_secret(path: Path) -> list[str]:
    return [file.name for file in path.parent.iterdir() if SECRET.encode() in file.read_bytes()]


def open_reader(path: Path) -> sqlite3.Connection:
    """Begins to read, as a backup does or a shell in which somebody forgot a transaction."""
    reader = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM notes").fetchone()
    return reader


def test_what_is_erased_without_trace_is_in_no_file(database: SqliteDatabase, path: Path) -> None:
    erase(database)
    assert files_with_secret(path) == []


def test_a_long_reader_keeps_an_erasure_but_not_each_later_commit_waiting(
    database: SqliteDatabase, path: Path, attempts: list[str], pause: Callable[[float], None]
) -> None:
    pause(3600)
    with closing(open_reader(path)):
        erase(database)
        for number in range(100, 120):
            database.write(lambda tx, number=number: tx.run(ADD, number=number, text="text"))  # type: ignore[misc]
        erase(database)
        assert len(attempts) == 1


def test_what_is_erased_leaves_the_files_after_the_last_reader_without_another_commit(
    database: SqliteDatabase, path: Path, pause: Callable[[float], None]
) -> None:
    pause(0.05)
    with closing(open_reader(path)):
        erase(database)
        assert files_with_secret(path) != []
    until(lambda: files_with_secret(path) == [], "the end of what was erased")


def test_a_long_reader_is_logged_once_and_its_end_once(
    database: SqliteDatabase,
    path: Path,
    attempts: list[str],
    pause: Callable[[float], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    pause(0.01)
    with closing(open_reader(path)):
        erase(database)
        until(lambda: len(attempts) > 4, "several attempts")
    until(lambda: len(caplog.messages) > 1, "the message that it was emptied")
    assert caplog.messages == [STILL_THERE, GONE]


def test_a_reader_that_ends_before_the_next_attempt_is_not_logged(
    database: SqliteDatabase, path: Path, pause: Callable[[float], None], caplog: pytest.LogCaptureFixture
) -> None:
    pause(3600)
    with closing(open_reader(path)):
        erase(database)
    database.close()
    assert caplog.messages == []


def test_what_is_erased_leaves_the_files_when_the_database_closes(
    database: SqliteDatabase, path: Path, pause: Callable[[float], None]
) -> None:
    pause(3600)
    # A connection that stays open: without it, SQLite itself empties the log.
    with closing(open_reader(path)) as reader:
        erase(database)
        reader.execute("COMMIT")
        database.close()
        assert files_with_secret(path) == []


def test_what_a_stopped_process_erased_leaves_the_files_after_the_next_start(
    database: SqliteDatabase, path: Path, pause: Callable[[float], None]
) -> None:
    pause(0.05)
    with closing(open_reader(path)) as reader:
        erase(database)
        database.close()
        assert files_with_secret(path) != []
        again = SqliteDatabase(path)
        reader.execute("COMMIT")
        until(lambda: files_with_secret(path) == [], "the end of what was erased")
        again.close()


def test_a_log_that_cannot_be_emptied_does_not_stop_the_writer(
    database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as fault, caplog.at_level(logging.CRITICAL):
        fault.setattr(f"{MODULE}._LOG_BUSY_MS", "no number, so the pragma is no SQL ;;")
        erase(database)
    add(database, 100)
    assert len(database.read(lambda tx: tx.scalars(NUMBERS))) == 11
    assert database.healthy()
