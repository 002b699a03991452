"""A table of notes on a server, and what tests do to it."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

import psycopg
from sqlalchemy import (
    Column,
    Integer,
    MetaData,
    Table,
    Text,
    bindparam,
    func,
    insert,
    select,
    update,
)

from backend.storage.database import Tx
from backend.storage.dialects.postgresql.database import PostgresqlDatabase
from backend.storage.statements import Command, GuardedInsert, InsertedRows, Query, ScalarQuery, select_row

CATALOGUE = MetaData()
NOTES = Table("notes", CATALOGUE, Column("number", Integer, primary_key=True), Column("text", Text, nullable=False))


class Note(NamedTuple):
    number: int
    text: str


class NoteFacts(NamedTuple):
    notes: int
    known: int | None


ADD = Command(insert(NOTES), ["number", "text"])
ALL = Query(Note, select_row(Note, NOTES).order_by(NOTES.c.number))
SET = Command(update(NOTES).where(NOTES.c.number == bindparam("of_number")).values(text=bindparam("new_text")))
JIT = ScalarQuery[str](select(func.current_setting("jit")))
SESSION = ScalarQuery[int](select(func.pg_backend_pid()))
END_SESSION = ScalarQuery[bool](select(func.pg_terminate_backend(func.pg_backend_pid())))
# As a start does: nothing twice.
ADD_ONCE = GuardedInsert(
    row=NoteFacts,
    query=select_row(
        NoteFacts,
        notes=select(func.count()).select_from(NOTES).scalar_subquery(),
        known=select(NOTES.c.number).where(NOTES.c.number == bindparam("of_number")).scalar_subquery(),
    ),
    equal=(),
    at_most=("notes",),
    null=("known",),
    inserts={"note": InsertedRows(NOTES, ("number", "text"))},
)


def add_once(database: PostgresqlDatabase, number: int) -> tuple[NoteFacts, bool]:
    return database.single_round_trip(
        ADD_ONCE,
        NoteFacts(notes=10, known=None),
        {"note": {"number": number, "text": "text"}},
        lock_key="key 1",
        claim="k",
        of_number=number,
    )


def add(database: PostgresqlDatabase, number: int, text: str = "text") -> None:
    database.write(lambda tx: tx.run(ADD, number=number, text=text))


def notes(database: PostgresqlDatabase) -> dict[int, str]:
    return {row.number: row.text for row in database.read(lambda tx: tx.all(ALL))}


class HeldChange:
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


@contextmanager
def ending_sessions_in_their_commit(url: str) -> Iterator[None]:
    """While it lasts, a session that adds a note ends while it commits."""
    with psycopg.connect(url) as connection:
        connection.execute("""
            CREATE FUNCTION end_session() RETURNS trigger LANGUAGE plpgsql AS
                'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END';
            CREATE CONSTRAINT TRIGGER end_session AFTER INSERT ON notes
                DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION end_session();
        """)
    try:
        yield
    finally:
        with psycopg.connect(url) as connection:
            connection.execute("DROP TRIGGER end_session ON notes; DROP FUNCTION end_session")
