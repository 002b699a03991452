"""Rows of outputs, read from either database beside a running service."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, Final, NamedTuple

from backend.storage.factory import DATABASE_FILE
from deploy.config.secret_references import resolve_database_url
from deploy.doctor.check import Examined
from deploy.doctor.sqlite_file import open_beside_user

_SECONDS: Final = 5


_PAGE: Final = 2_000
_LISTED: Final = (
    "SELECT run_id, path, object_key, size_bytes FROM outputs "
    "WHERE (run_id, path) > ({0}, {0}) ORDER BY run_id, path LIMIT {0}"
)
"""With the placeholder of the database's driver."""


class OutputRow(NamedTuple):
    """What the row of an output says of its object."""

    run_id: str
    path: str
    object_key: str
    size_bytes: int


def paged_outputs(examined: Examined) -> Iterator[OutputRow]:
    """Yields the outputs by run, read page by page: no transaction is open while the caller works on them.

    Raises as `output_rows`.
    """
    statement = _LISTED.format("?" if examined.settings.backend.database is None else "%s")
    after = ("", "")
    while page := [OutputRow(*row) for row in output_rows(examined, statement, (*after, _PAGE))]:
        yield from page
        after = page[-1][:2]


def output_rows(examined: Examined, statement: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
    """Yields the rows of a query as they arrive; none where the embedded database is not there yet.

    Raises:
        ImportError, SecretError, sqlite3.Error, psycopg.Error: the database cannot be read.
    """
    if examined.settings.backend.database is None:
        file = examined.data / DATABASE_FILE
        if file.exists():
            with closing(open_beside_user(file)) as connection:
                yield from connection.execute(statement, values)
        return
    import psycopg

    url = resolve_database_url(examined.settings.backend.database, examined.environment)
    with psycopg.connect(url or "", connect_timeout=_SECONDS) as connected:
        connected.read_only = True
        with connected.cursor(name="doctor") as cursor:
            cursor.execute(statement, values or None)
            yield from cursor
