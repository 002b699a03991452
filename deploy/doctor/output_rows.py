"""Rows of outputs, read from either database beside a running service."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

from backend.storage.factory import DATABASE_FILE
from deploy.config.secret_references import resolve_database_url
from deploy.doctor.check import Examined
from deploy.doctor.sqlite_file import open_beside_user

_SECONDS: Final = 5


def output_rows(examined: Examined, statement: str) -> Iterator[tuple[Any, ...]]:
    """Yields the rows of a query as they arrive; none where the embedded database is not there yet.

    Raises:
        ImportError, SecretError, sqlite3.Error, psycopg.Error: the database cannot be read.
    """
    if examined.settings.backend.database is None:
        file = examined.data / DATABASE_FILE
        if file.exists():
            with closing(open_beside_user(file)) as connection:
                yield from connection.execute(statement)
        return
    import psycopg

    url = resolve_database_url(examined.settings.backend.database, examined.environment)
    with psycopg.connect(url or "", connect_timeout=_SECONDS) as connected:
        connected.read_only = True
        with connected.cursor(name="doctor") as cursor:
            cursor.execute(statement)
            yield from cursor
