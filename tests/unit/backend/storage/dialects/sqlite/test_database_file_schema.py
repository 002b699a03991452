"""A new SQLite file has the newest schema at once; any other is brought to it by the migrations."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from backend.storage.dialects.sqlite import database_file
from backend.storage.factory import newest_revision
from scripts.empty_schema import newest_schema


def test_a_new_file_gets_what_the_migrations_make(tmp_path: Path) -> None:
    # `python scripts/empty_schema.py` writes it.
    assert database_file.NEWEST.read_text(encoding="utf-8") == newest_schema(tmp_path)
    assert database_file.prepare(tmp_path / "new.sqlite3") == newest_revision()
    assert master(tmp_path / "new.sqlite3") == master(tmp_path / "migrated.sqlite3")
    with closing(sqlite3.connect(tmp_path / "new.sqlite3")) as connection:
        assert connection.execute("PRAGMA auto_vacuum").fetchone() == (database_file.INCREMENTAL,)


def test_a_file_with_a_schema_keeps_it(tmp_path: Path) -> None:
    file = tmp_path / "old.sqlite3"
    assert database_file.prepare(file) == newest_revision()
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '0001'")
        connection.execute("DROP TABLE webhooks")
    before = master(file)
    assert database_file.prepare(file) == "0001"
    assert master(file) == before


def test_a_file_with_other_tables_gets_nothing(tmp_path: Path) -> None:
    file = tmp_path / "other.sqlite3"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE notes (text TEXT)")
    assert database_file.prepare(file) is None
    assert [name for name, _ in master(file)] == ["notes"]


def test_what_is_no_database_has_no_revision(tmp_path: Path) -> None:
    file = tmp_path / "text.sqlite3"
    file.write_bytes(b"no database")
    assert database_file.prepare(file) is None


def test_a_script_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "newest.sql"
    script.write_text("CREATE TABLE one (a TEXT);\nCREATE TABLE one (a TEXT);\n")
    monkeypatch.setattr(database_file, "NEWEST", script)
    file = tmp_path / "new.sqlite3"
    assert database_file.prepare(file) is None
    assert master(file) == []


def master(file: Path) -> list[tuple[str, str | None]]:
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
