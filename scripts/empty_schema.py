"""Writes the schema with which new SQLite files begin in place of all migrations; run it after adding one."""

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from sqlalchemy import create_engine

from backend.storage.dialects.sqlite.database_file import NEWEST
from backend.storage.factory import newest_revision, upgrade


def newest_schema(folder: Path) -> str:
    """Returns the statements by which the migrations' tables and indexes are made in a new file; uses a folder."""
    file = folder / "migrated.sqlite3"
    engine = create_engine(f"sqlite:///{file}")
    upgrade(engine)
    engine.dispose()
    with closing(sqlite3.connect(file)) as connection:
        made = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid").fetchall()
    statements = [statement for (statement,) in made]
    statements.append(f"INSERT INTO alembic_version (version_num) VALUES ('{newest_revision()}')")  # noqa: S608 - ours
    return "".join(f"{statement};\n" for statement in statements)


def main() -> None:
    """Writes the schema to `database_file.NEWEST`."""
    with tempfile.TemporaryDirectory() as folder:
        NEWEST.write_text(newest_schema(Path(folder)), encoding="utf-8")


if __name__ == "__main__":
    main()
