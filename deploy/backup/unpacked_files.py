"""The files that a restore has unpacked, held against the backup's list of digests."""

import sqlite3

from deploy.backup.object_lists import temporary_database


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
        """Records the digest of a file; of one that is unpacked twice the later one counts."""
        self._database.execute("INSERT OR REPLACE INTO files VALUES (?, ?, 0)", (name, sha256))

    def digest(self, name: str) -> str | None:
        """Returns the digest of a file, or None where none of that name was unpacked."""
        found = self._database.execute("SELECT sha256 FROM files WHERE name = ?", (name,)).fetchone()
        return None if found is None else str(found[0])

    def mark_listed(self, name: str) -> None:
        """Records that a file is part of the backup."""
        self._database.execute("UPDATE files SET listed = 1 WHERE name = ?", (name,))

    def unlisted(self) -> list[str]:
        """Returns the names of files that are no part of the backup."""
        return [name for (name,) in self._database.execute("SELECT name FROM files WHERE NOT listed")]
