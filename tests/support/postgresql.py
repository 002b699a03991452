"""Databases of a real PostgreSQL: the one that a variable names, or one of the tests' own."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Any
from urllib.parse import urlencode

import psycopg
from psycopg import sql

from backend.storage.factory import open_postgresql
from backend.storage.tables.metadata import METADATA
from tests.support.own_postgresql import OwnPostgresql

_NAMED = "WORKFLOW_API_TEST_POSTGRES"
_ENDED_WITHIN_MS = 30_000
_TABLES = [sql.Identifier(table.name) for table in METADATA.sorted_tables]
_EMPTY = sql.SQL("; ").join(sql.SQL("DELETE FROM {}").format(name) for name in _TABLES)


class Postgresql:
    """A server on which tests make databases; `url` is that of one to connect to at first."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._numbers = count()
        self._shared = f"workflow_api_test_{os.getpid()}"
        self._admin = psycopg.connect(url, autocommit=True)
        self._make(self._shared)
        open_postgresql(self.shared, 1).close()
        # Kept open: a new session would read the catalogue of every table first.
        self._emptying = self._without_references()

    @property
    def shared(self) -> str:
        """The URL of one database that tests use in turn, each `emptied` before."""
        return self.url_of(self._shared)

    def empty(self) -> None:
        """Empties the shared database; much faster than to make one."""
        try:
            self._emptying.execute(_EMPTY)
        except psycopg.OperationalError:
            # A test ended all sessions.
            self._emptying = self._without_references()
            self._emptying.execute(_EMPTY)

    def url_of(self, name: str) -> str:
        parts = {part: str(value) for part, value in psycopg.conninfo.conninfo_to_dict(self._url).items()}
        del parts["dbname"]
        return f"postgresql://{parts.pop('user')}@/{name}?{urlencode(parts)}"

    @contextmanager
    def database(self) -> Iterator[str]:
        """Yields the URL of a new, empty database."""
        name = f"{self._shared}_{next(self._numbers)}"
        self._make(name)
        try:
            yield self.url_of(name)
        finally:
            self._drop(name)

    @contextmanager
    def away(self, url: str) -> Iterator[None]:
        """Makes a database unreachable within the context."""
        name = str(psycopg.conninfo.conninfo_to_dict(url)["dbname"])
        self._allow(name, connections=False)
        try:
            self._admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
            yield
        finally:
            self._allow(name, connections=True)

    def stop(self) -> None:
        self._emptying.close()
        self._drop(self._shared)
        self._admin.close()

    def _without_references(self) -> psycopg.Connection[tuple[Any, ...]]:
        """Returns a session that deletes rows in any order, whichever others refer to them."""
        connection = psycopg.connect(self.shared, autocommit=True)
        connection.execute("SET session_replication_role = replica")
        return connection

    def _make(self, name: str) -> None:
        # Tests that were killed may have left one of this name.
        self._drop(name)
        self._admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))

    def _allow(self, name: str, *, connections: bool) -> None:
        allow = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
        self._admin.execute(allow.format(sql.Identifier(name), sql.Literal(connections)))

    def _drop(self, name: str) -> None:
        self._admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def end_sessions(url: str) -> None:
    """Ends every other session of a database, as a restart of the server does; returns once they are gone."""
    with psycopg.connect(url) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, %s) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()",
            [_ENDED_WITHIN_MS],
        )


def tables_holding(url: str, text: str) -> Iterator[str]:
    """The tables of a database with a row that holds the text."""
    with psycopg.connect(url) as connection:
        for table in METADATA.sorted_tables:
            name = sql.Identifier(table.name)
            row = sql.SQL("SELECT 1 FROM {} AS row WHERE strpos(row::text, %s) > 0 LIMIT 1").format(name)
            if connection.execute(row, [text]).fetchone() is not None:
                yield table.name


@contextmanager
def postgresql() -> Iterator[Postgresql]:
    """Yields a server that lasts as long as the context.

    Not one that happens to run here: each process of a parallel test run takes up to a hundred connections.
    """
    with ExitStack() as stack:
        url = os.environ.get(_NAMED)
        if url is None:
            own = OwnPostgresql()
            stack.callback(own.close)
            url = own.url
        server = Postgresql(url)
        stack.callback(server.stop)
        yield server
