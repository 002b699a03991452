"""A table of notes on a server, and what tests do to it."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
from sqlalchemy import (
    Column,
    Integer,
    MetaData,
    Table,
    Text,
    bindparam,
    cast,
    exists,
    func,
    insert,
    literal_column,
    select,
    update,
)

from backend.storage.database import Tx, has_locks
from backend.storage.dialects.postgresql.database import PostgresqlDatabase
from backend.storage.statements import prepare

CATALOGUE = MetaData()
NOTES = Table("notes", CATALOGUE, Column("number", Integer, primary_key=True), Column("text", Text, nullable=False))
ADD = prepare(insert(NOTES), ["number", "text"])
ALL = prepare(select(NOTES).order_by(NOTES.c.number))
SET = prepare(update(NOTES).where(NOTES.c.number == bindparam("of_number")).values(text=bindparam("new_text")))
SESSION = prepare(select(func.pg_backend_pid().label("pid")))
END_SESSION = prepare(select(func.pg_terminate_backend(func.pg_backend_pid())))
# As a start does: it changes nothing unless it has the locks, and nothing twice.
ADD_AT_ONCE = prepare(
    select(func.count(), has_locks().label("held"))
    .select_from(NOTES)
    .add_cte(
        insert(NOTES)
        .from_select(
            ["number", "text"],
            select(cast(bindparam("number"), Integer), literal_column("'text'")).where(
                has_locks(), ~exists().where(NOTES.c.number == bindparam("number"))
            ),
        )
        .cte("added")
    )
)


def add(database: PostgresqlDatabase, number: int, text: str = "text") -> None:
    database.write(lambda tx: tx.run(ADD, number=number, text=text))


def notes(database: PostgresqlDatabase) -> dict[int, str]:
    return {row.number: row.text for row in database.read(lambda tx: tx.all(ALL))}


class Held:
    """A change that has begun, and ends when it is let go."""

    def __init__(self, write: Callable[[Callable[[Tx], None]], None]) -> None:
        self._begun, self._let_go = threading.Event(), threading.Event()
        self._pool = ThreadPoolExecutor(1)
        self._done = self._pool.submit(write, self._work)

    def _work(self, tx: Tx) -> None:
        tx.all(ALL)
        self._begun.set()
        assert self._let_go.wait(60)

    @property
    def begun(self) -> bool:
        return self._begun.is_set()

    def end(self) -> None:
        self._let_go.set()
        self._done.result(60)
        self._pool.shutdown()


def waits(url: str) -> bool:
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        ).fetchone()
    return found is not None and found[0] > 0
