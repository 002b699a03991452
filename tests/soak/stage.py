"""The service that is under load: `serve` on the embedded database, or backend, worker and edge on PostgreSQL."""

import os
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Final, Protocol
from unittest.mock import patch
from urllib.parse import urlsplit

import psycopg
from google.protobuf.duration_pb2 import Duration

from backend.storage.factory import DATABASE_FILE
from tests.soak import samples
from tests.support.admin import Admin
from tests.support.deployment import Deployment
from tests.support.own_postgresql import OwnPostgresql
from tests.support.part import Part, address_of
from tests.support.service import Service
from tests.support.wire import Address
from workflow_api.v1 import deployment_pb2, runs_pb2

SQLITE: Final = "sqlite"
POSTGRESQL: Final = "postgresql"

_SETTINGS: Final = {"LOG_LEVEL": "warning", "WEBHOOKS_PRIVATE_NETWORKS": "127.0.0.0/8"}
_DAY_SECONDS: Final = 86_400
_RETENTION_DAYS: Final = 1

# Column of a table by which its rows are kept, for how many days, and which of its rows may be made older.
_AGED: Final[Mapping[str, tuple[str, float, str]]] = {
    "runs": ("finished_at", _RETENTION_DAYS, "data_purged_at IS NULL AND redaction_state <> 'pending'"),
    "idempotency_records": ("first_used_at", 1, "run_id IS NOT NULL"),
    "usage_batches": ("last_at", 90, "1 = 1"),
    "audit_records": ("at", 400, "1 = 1"),
    "webhook_deliveries": ("occurred_at", 30, "finished_at IS NOT NULL"),
    "step_log_parts": ("superseded_at", 1, "superseded_at IS NOT NULL"),
    "step_transcript_parts": ("superseded_at", 1, "superseded_at IS NOT NULL"),
}
# Those of a queue on PostgreSQL are purged an hour after they were made, once their segments have ended.
_AGED_QUEUE: Final = {"dbos.workflow_status": ("created_at", 0.5, "1 = 1")}
_UPLOAD_MS: Final = 3_600_000
_PG_TABLES: Final = """
SELECT schemaname || '.' || relname, n_dead_tup FROM pg_stat_user_tables WHERE schemaname <> 'pg_toast'
"""


class Database(Protocol):
    """Statements on the database of a deployment, beside the service; `aged` extends what is made older."""

    aged: Mapping[str, tuple[str, float, str]]

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Returns the rows of a query."""

    def change(self, statements: list[str]) -> None:
        """Commits statements, each on its own."""

    def sample(self) -> samples.Sample:
        """Counts the rows of each table, and what the database uses."""


class Embedded:
    """The file of the embedded database."""

    aged: Mapping[str, tuple[str, float, str]] = {}

    def __init__(self, file: Path) -> None:
        self._file = file

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self._file, timeout=60)) as connection:
            return connection.execute(statement).fetchall()

    def change(self, statements: list[str]) -> None:
        with closing(sqlite3.connect(self._file, timeout=60, isolation_level=None)) as connection:
            for statement in statements:
                connection.execute(statement)

    def sample(self) -> samples.Sample:
        tables = [row[0] for row in self.rows("SELECT name FROM sqlite_master WHERE type = 'table'")]
        counted = {f"rows of {name}": self.rows(f'SELECT count(*) FROM "{name}"')[0][0] for name in tables}
        log = Path(f"{self._file}-wal")
        return {
            **counted,
            "database: bytes": self._file.stat().st_size,
            "database: bytes of its log": log.stat().st_size if log.exists() else 0,
        }


class Server:
    """A database of its own on PostgreSQL."""

    aged: Mapping[str, tuple[str, float, str]] = _AGED_QUEUE

    def __init__(self, url: str) -> None:
        self._url = url

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self._url) as connection:
            return connection.execute(statement.encode()).fetchall()

    def change(self, statements: list[str]) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def sample(self) -> samples.Sample:
        tables = dict(self.rows(_PG_TABLES))
        counted = {
            f"rows of {name.removeprefix('public.')}": self.rows(f"SELECT count(*) FROM {name}")[0][0]
            for name in tables
        }
        (connections,) = self.rows("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'")
        (size,) = self.rows("SELECT pg_database_size(current_database())")
        return {
            **counted,
            "database: bytes": size[0],
            # The one that counts is not the service's.
            "database: connections": connections[0] - 1,
            "database: dead rows": sum(tables.values()),
        }


class Stage:
    """A deployment: its processes by their roles, its folders by their names, its database."""

    def __init__(self, parts: dict[str, Part], admin: Admin, folders: dict[str, Path], database: Database) -> None:
        ready = {name: value for part in parts.values() for name, value in part.ready.items()}
        self.address = address_of(ready["base_address"])
        console = urlsplit(ready["console"])
        self.console: Address = "127.0.0.1", console.port or 0
        self.admin = admin
        self.parts = parts
        self.folders = folders
        self.database = database
        retention = Duration(seconds=_RETENTION_DAYS * _DAY_SECONDS)
        admin.deployment.UpdateDeployment(deployment_pb2.UpdateDeploymentRequest(retention=retention))

    def sample(self) -> samples.Sample:
        """What it uses now."""
        found: samples.Sample = {}
        for role, part in self.parts.items():
            found |= samples.of_process(role, part.pid)
        for name, folder in self.folders.items():
            found |= samples.of_folder(name, folder)
        return found | self.database.sample()

    def age(self, kept_seconds: float) -> None:
        """Makes what is older than that older than it is kept, and lets the upkeep delete it."""
        now = time.time_ns() // 1_000_000
        # What was made older before is not made older again.
        lately = f"BETWEEN {now - _DAY_SECONDS * 500} AND {now - round(kept_seconds * 1000)}"
        uploads = f"run_id IS NULL AND expires_at > {now} AND created_at {lately}"
        self.database.change(
            [
                f"UPDATE uploads SET expires_at = expires_at - {_UPLOAD_MS} WHERE {uploads}",
                *(
                    f"UPDATE {table} SET {column} = {column} - {round(days * _DAY_SECONDS * 1000)}"
                    f" WHERE {column} {lately} AND {condition}"
                    for table, (column, days, condition) in {**_AGED, **self.database.aged}.items()
                ),
            ]
        )
        self.admin.runs.RunUpkeep(runs_pb2.RunUpkeepRequest(), timeout=120)


@contextmanager
def started(database: str, folder: Path) -> Iterator[Stage]:
    """Starts the service of a kind of database, with all its files below a folder."""
    temporary = folder / "temporary"
    temporary.mkdir()
    with ExitStack() as held:
        if database == SQLITE:
            held.enter_context(_temporary_folder(temporary))
            variables = {f"WORKFLOW_API_{name}": value for name, value in _SETTINGS.items()}
            service = Service(folder, "--console", "127.0.0.1:0", variables=variables)
            held.callback(service.stop)
            service.start()
            data = folder / "data"
            folders = {"objects": data / "objects", "other data": data, "temporary folder": temporary}
            file = data / DATABASE_FILE
            yield Stage({"serve": service}, service.admin, folders, Embedded(file))
            return
        server = OwnPostgresql()
        held.callback(server.close)
        held.enter_context(_temporary_folder(temporary))
        deployment = Deployment(folder, server.url, **_SETTINGS)
        held.callback(deployment.stop)
        backend = deployment.backend()
        worker = deployment.worker()
        edge = deployment.edge(backend)
        console = deployment.console(backend)
        parts = {"backend": backend, "worker": worker, "edge": edge, "console": console}
        folders = {"objects": deployment.objects, "other data": folder, "temporary folder": temporary}
        yield Stage(parts, deployment.admin(backend), folders, Server(server.url))


@contextmanager
def _temporary_folder(folder: Path) -> Iterator[None]:
    with patch.dict(os.environ, TMPDIR=str(folder)), patch.object(tempfile, "tempdir", None):
        yield
