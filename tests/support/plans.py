"""Plans of the statements that the SQL of a service runs, on an empty SQLite database."""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing

from sqlalchemy import create_engine
from sqlalchemy.pool import StaticPool

from backend.storage.database import DriverCursor, Tx
from backend.storage.dialects.sqlite.database_file import Dialect
from backend.storage.tables.metadata import METADATA


class _ExplainedConnection:
    """A connection that notes the plan of each statement before it runs."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.plans: list[list[str]] = []

    def execute(self, text: str, arguments: Sequence[object] = (), /) -> DriverCursor:
        rows = self._connection.execute(f"EXPLAIN QUERY PLAN {text}", arguments)
        self.plans.append([row[3] for row in rows])
        return self._connection.execute(text, arguments)

    def cursor(self) -> DriverCursor:
        return self._connection.cursor()


def plans_of(work: Callable[[Tx], object]) -> list[list[str]]:
    """Returns the steps of the plan of each statement that `work` runs."""
    engine = create_engine("sqlite://", poolclass=StaticPool)
    METADATA.create_all(engine)
    with closing(engine.raw_connection()) as raw:
        explained = _ExplainedConnection(raw.driver_connection)  # type: ignore[arg-type]  # the driver is known
        work(Tx(explained, Dialect(paramstyle="qmark")))
    engine.dispose()
    return explained.plans
