import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, Text, bindparam, func, insert, select, update

from backend.storage.database import Tx
from backend.storage.dialects.sqlite.database_file import Dialect
from backend.storage.statements import Command, Query, RowInsert, ScalarQuery, select_row

NOTES = Table("notes", MetaData(), Column("number", Integer, primary_key=True), Column("text", Text))
TAGS = Table("tags", MetaData(), Column("number", Integer), Column("tag", Text))


class Note(NamedTuple):
    number: int
    text: str | None


class NoteCount(NamedTuple):
    text: str | None
    tag: str
    notes: int


ADD = Command(insert(NOTES), ["number", "text"])
ADD_NOTES = RowInsert(Note, NOTES)
GET = Query(Note, select_row(Note, NOTES).where(NOTES.c.number == bindparam("number")))
ALL = Query(Note, select_row(Note, NOTES).order_by(NOTES.c.number))
TEXT = ScalarQuery[str | None](select(NOTES.c.text).where(NOTES.c.number == bindparam("number")))
NUMBERS = ScalarQuery[int](select(NOTES.c.number).order_by(NOTES.c.number))


@pytest.fixture
def tx() -> Iterator[Tx]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE notes (number INTEGER PRIMARY KEY, text TEXT)")
        tx = Tx(connection, Dialect(paramstyle="qmark"))
        tx.many(ADD, [{"number": 1, "text": "one"}, {"number": 2, "text": None}])
        yield tx


def test_rows_are_instances_of_the_row_class_of_their_query(tx: Tx) -> None:
    row = tx.one(GET, number=1)
    assert type(row) is Note
    assert row == Note(number=1, text="one")
    assert tx.all(ALL) == [Note(1, "one"), Note(2, None)]
    assert tx.each(GET, [{"number": 2}, {"number": 3}]) == [[Note(2, None)], []]


@pytest.mark.parametrize(
    "columns",
    [(NOTES.c.text, NOTES.c.number), (NOTES.c.number,), (NOTES.c.number, NOTES.c.text.label("words"))],
    ids=["another order", "one missing", "another name"],
)
def test_a_query_whose_columns_are_not_the_fields_of_its_row_class_is_refused(columns: tuple[Column[object]]) -> None:
    with pytest.raises(TypeError, match="Note has the fields"):
        Query(Note, select(*columns))


def test_what_an_update_returns_is_held_against_the_row_class_too() -> None:
    changed = update(NOTES).values(text=None)
    Query(Note, changed.returning(NOTES.c.number, NOTES.c.text))
    with pytest.raises(TypeError):
        Query(Note, changed.returning(NOTES.c.number))


def test_a_scalar_query_has_one_column() -> None:
    with pytest.raises(TypeError, match="one column"):
        ScalarQuery[int](select(NOTES))


def test_a_missing_row_is_none_or_an_error_where_there_always_is_one(tx: Tx) -> None:
    assert tx.first(GET, number=3) is None
    assert tx.scalar(TEXT, number=3) is None
    assert not tx.exists(TEXT, number=3)
    with pytest.raises(LookupError):
        tx.one(GET, number=3)
    with pytest.raises(LookupError):
        tx.scalar_one(TEXT, number=3)


def test_a_scalar_is_the_value_of_the_one_column(tx: Tx) -> None:
    assert tx.scalar_one(TEXT, number=1) == "one"
    assert tx.scalar_one(TEXT, number=2) is None
    assert tx.exists(TEXT, number=2)
    assert tx.scalars(NUMBERS) == [1, 2]


def test_a_field_is_computed_or_a_column_of_the_first_table_that_has_it() -> None:
    clause = select_row(NoteCount, NOTES, TAGS, notes=func.count(NOTES.c.number))
    assert str(clause).split("\n", maxsplit=1)[0] == "SELECT notes.text, tags.tag, count(notes.number) AS notes "
    with pytest.raises(KeyError, match="tag"):
        select_row(NoteCount, NOTES, notes=func.count())


@pytest.mark.parametrize("rows", [49, 50, 51, 100, 149])
def test_many_rows_are_inserted_together_whatever_their_number(tx: Tx, rows: int) -> None:
    tx.many(ADD, ({"number": number, "text": f"{number}"} for number in range(10, 10 + rows)))
    assert tx.all(ALL)[2:] == [Note(number, f"{number}") for number in range(10, 10 + rows)]


def test_many_changes_are_made_one_by_one_where_they_insert_no_plain_rows(tx: Tx) -> None:
    tx.many(ADD, [{"number": number, "text": "a"} for number in range(10, 70)])
    change = Command(update(NOTES).where(NOTES.c.number == bindparam("of")).values(text=bindparam("new")))
    tx.many(change, [{"of": number, "new": "b"} for number in range(10, 70)])
    computed = Command(insert(NOTES).values(number=bindparam("at"), text=func.upper(bindparam("given"))))
    tx.many(computed, [{"at": number, "given": "c"} for number in range(100, 160)])
    assert {row.text for row in tx.all(ALL) if 10 <= row.number < 70} == {"b"}
    assert [row.text for row in tx.all(ALL) if row.number >= 100] == ["C"] * 60


def test_an_insert_of_rows_names_only_columns_that_they_have_values_for(tx: Tx) -> None:
    sent: list[str] = []
    connection = tx.connection
    assert isinstance(connection, sqlite3.Connection)
    connection.set_trace_callback(sent.append)
    tx.insert(ADD_NOTES, [Note(3, None), Note(5, None)])
    tx.insert(ADD_NOTES, [Note(4, "four"), Note(6, None)])
    tx.insert(ADD_NOTES, [])
    connection.set_trace_callback(None)
    added = [row for row in tx.all(ALL) if row.number > 2]
    assert added == [Note(3, None), Note(4, "four"), Note(5, None), Note(6, None)]
    assert [text.partition(" VALUES")[0] for text in sent if text.startswith("INSERT")] == [
        "INSERT INTO notes (number)",
        "INSERT INTO notes (number)",
        "INSERT INTO notes (number, text)",
        "INSERT INTO notes (number, text)",
    ]
