import sqlite3
from contextlib import closing

from deploy.backup.object_lists import Named, named_objects

TABLES = """
    CREATE TABLE outputs (run_id TEXT, object_key TEXT, size_bytes INTEGER, sha256 TEXT);
    CREATE TABLE runs (run_id TEXT, finished_at INTEGER);
    CREATE TABLE shared_files (object_key TEXT, run_id TEXT, size_bytes INTEGER);
    INSERT INTO runs VALUES ('run_waits', NULL), ('run_ended', 1);
    INSERT INTO shared_files VALUES ('waits', 'run_waits', 3), ('ended', 'run_ended', 4);
"""


def test_shared_files_of_runs_that_go_on_are_backed_up() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        database.executescript(TABLES)
        assert list(named_objects(database)) == [Named("waits", 3, None)]
