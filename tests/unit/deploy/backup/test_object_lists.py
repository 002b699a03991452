import sqlite3
from contextlib import closing

from deploy.backup.object_lists import NamedObject, named_objects

TABLES = """
    CREATE TABLE outputs (run_id TEXT, object_key TEXT, size_bytes INTEGER, sha256 TEXT);
    CREATE TABLE runs (run_id TEXT, finished_at INTEGER, status TEXT, redaction_state TEXT);
    CREATE TABLE shared_files (object_key TEXT, run_id TEXT, size_bytes INTEGER);
    INSERT INTO runs VALUES ('run_waits', NULL, 'running', 'pending'), ('run_ended', 1, 'completed', 'none'),
        ('run_failed', 1, 'failed', 'none'), ('run_swept', 1, 'failed', 'done');
    INSERT INTO shared_files VALUES ('waits', 'run_waits', 3), ('ended', 'run_ended', 4), ('failed', 'run_failed', 5),
        ('swept', 'run_swept', 6);
"""


def test_shared_files_of_runs_that_go_on_or_may_be_resumed_are_backed_up() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        database.executescript(TABLES)
        assert list(named_objects(database)) == [NamedObject("waits", 3, None), NamedObject("failed", 5, None)]


def test_logs_and_transcripts_that_are_stored_whole_are_backed_up() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        database.executescript(TABLES + "DELETE FROM shared_files;")
        for table in ("step_logs", "step_transcripts"):
            database.executescript(
                f"CREATE TABLE {table} (run_id TEXT, step TEXT, attempt INTEGER, size_bytes INTEGER);"
                f"INSERT INTO {table} VALUES ('run_1', 'ask/3', 2, 7), ('run_1', 'ask/4', 1, NULL);"
            )
        assert list(named_objects(database)) == [
            NamedObject("runs/run_1/logs/ask/3-2", 7, None),
            NamedObject("runs/run_1/transcripts/ask/3-2", 7, None),
        ]
