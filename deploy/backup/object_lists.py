"""Lists of a backup's objects and of a restore's unpacked files, in temporary databases, for there may be millions."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from types import TracebackType
from typing import Final, NamedTuple, Self

from backend.services.uploads.rules import PART_BYTES
from backend.storage.object_keys import (
    result_row_key,
    step_log_key,
    step_transcript_key,
    upload_members_key,
    upload_part_key,
)

_BATCH: Final = 1000


class NamedObject(NamedTuple):
    """An object that a row names: key, size and digest; some rows have no digest."""

    key: str
    size: int
    sha256: str | None


class ObjectLists:
    """Lists of a backup's objects in a temporary database, for there may be millions; use as a context manager."""

    def __init__(self) -> None:
        self._lists = temporary_database(
            "CREATE TABLE named (key TEXT PRIMARY KEY, size INTEGER, sha256 TEXT) WITHOUT ROWID;"
            "CREATE TABLE copied (key TEXT PRIMARY KEY, size INTEGER, sha256 TEXT) WITHOUT ROWID;"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lists.close()

    def name(self, database: sqlite3.Connection) -> None:
        """Replaces the named objects by those that the rows of a database name now, in one read transaction."""
        self._lists.execute("DELETE FROM named")
        self._lists.executemany("INSERT OR REPLACE INTO named VALUES (?, ?, ?)", named_objects(database))

    def to_copy(self) -> Iterator[NamedObject]:
        """Yields the named objects without an equal copy, ordered by key."""
        after = ""
        while batch := self._lists.execute(
            "SELECT named.key, named.size, named.sha256 FROM named LEFT JOIN copied USING (key) WHERE named.key > ?"
            " AND (copied.key IS NULL OR copied.size <> named.size OR copied.sha256 <> named.sha256)"
            " ORDER BY named.key LIMIT ?",
            (after, _BATCH),
        ).fetchall():
            yield from map(NamedObject._make, batch)
            after = batch[-1][0]

    def add_copied(self, key: str, size: int, sha256: str) -> None:
        """Records size and digest of an object's copy."""
        self._lists.execute("INSERT OR REPLACE INTO copied VALUES (?, ?, ?)", (key, size, sha256))

    def copied(self) -> Iterator[NamedObject]:
        """Yields the copies of named objects, ordered by key."""
        with closing(self._lists.cursor()) as cursor:
            for row in cursor.execute("SELECT copied.* FROM copied JOIN named USING (key) ORDER BY copied.key"):
                yield NamedObject._make(row)


def temporary_database(tables: str) -> sqlite3.Connection:
    """Opens a database with these tables in a file without a name, which is gone with the connection."""
    database = sqlite3.connect("", isolation_level=None)
    # Never committed, because commits would take longer than all else.
    database.executescript(f"{tables} PRAGMA journal_mode = OFF; BEGIN;")
    return database


def named_objects(database: sqlite3.Connection) -> Iterator[NamedObject]:
    """Yields every object that a row names, in one read transaction; the schema may be an earlier one."""
    database.execute("BEGIN")
    try:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for run_id, key, size, sha256 in database.execute("SELECT run_id, object_key, size_bytes, sha256 FROM outputs"):
            if key != result_row_key(run_id):
                yield NamedObject(key, size, sha256)
        if "shared_files" in tables:
            # Objects of completed runs, and the originals of swept ones, are being removed.
            shared = (
                "SELECT object_key, size_bytes FROM shared_files JOIN runs USING (run_id)"
                " WHERE finished_at IS NULL OR (status <> 'completed' AND redaction_state = 'none')"
            )
            for key, size in database.execute(shared):
                yield NamedObject(key, size, None)
        for table, key_of in (("step_logs", step_log_key), ("step_transcripts", step_transcript_key)):
            if table in tables:
                texts = f"SELECT run_id, step, attempt, size_bytes FROM {table} WHERE size_bytes IS NOT NULL"  # noqa: S608 - ours
                for run_id, step, attempt, size in database.execute(texts):
                    yield NamedObject(key_of(run_id, step, attempt), size, None)
        if "upload_files" in tables:
            yield from _uploaded(database)
    finally:
        database.execute("COMMIT")


class UnpackedFiles:
    """Names and digests of unpacked files in a temporary database, for there may be millions; to be closed."""

    def __init__(self) -> None:
        self._database: sqlite3.Connection = temporary_database(
            "CREATE TABLE files (name TEXT PRIMARY KEY, sha256 TEXT, listed INTEGER) WITHOUT ROWID;"
        )

    def close(self) -> None:
        """Removes the database."""
        self._database.close()

    def add(self, name: str, sha256: str) -> None:
        """Records the digest of a file; if it is unpacked twice, the later digest counts."""
        self._database.execute("INSERT OR REPLACE INTO files VALUES (?, ?, 0)", (name, sha256))

    def digest(self, name: str) -> str | None:
        """Returns the digest of a file, or None if no file of that name was unpacked."""
        found = self._database.execute("SELECT sha256 FROM files WHERE name = ?", (name,)).fetchone()
        return None if found is None else str(found[0])

    def mark_listed(self, name: str) -> None:
        """Records that a file is part of the backup."""
        self._database.execute("UPDATE files SET listed = 1 WHERE name = ?", (name,))

    def unlisted(self) -> list[str]:
        """Returns the names of files that are no part of the backup."""
        return [name for (name,) in self._database.execute("SELECT name FROM files WHERE NOT listed")]


def _uploaded(database: sqlite3.Connection) -> Iterator[NamedObject]:
    # An upload that has expired is being removed.
    files = database.execute(
        "SELECT upload_id, number, size_bytes, stored_bytes, members IS NOT NULL FROM upload_files"
        " JOIN uploads USING (upload_id) WHERE uploads.expires_at > 0"
    )
    for upload_id, number, size, stored, expanded in files:
        if expanded:
            yield NamedObject(upload_members_key(upload_id, number), stored, None)
        else:
            for offset in range(0, size, PART_BYTES):
                part = min(PART_BYTES, size - offset)
                yield NamedObject(upload_part_key(upload_id, number, offset, part), part, None)
