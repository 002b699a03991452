"""Reads the database of a deployment: PostgreSQL, or the SQLite file of an embedded one."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Final

import psycopg

_SQLITE: Final = "sqlite:"
_BUSY_SECONDS: Final = 30


def sqlite_address(path: object) -> str:
    return f"{_SQLITE}{path}"


def sqlite_path(address: str) -> str:
    return address.removeprefix(_SQLITE)


@contextmanager
def reading(address: str) -> Iterator[Any]:
    """Yields a connection to the database at a URL, or at `sqlite:PATH`, with `execute`."""
    if not address.startswith(_SQLITE):
        with psycopg.connect(address) as database:
            yield database
        return
    with closing(sqlite3.connect(f"file:{sqlite_path(address)}?mode=ro", timeout=_BUSY_SECONDS, uri=True)) as database:
        yield database
