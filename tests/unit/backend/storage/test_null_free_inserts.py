from sqlalchemy import Column, Integer, MetaData, Table, Text, insert

from backend.storage.null_free_inserts import NullFreeInserts

NOTES = Table(
    "notes", MetaData(), Column("number", Integer, primary_key=True), Column("text", Text), Column("tag", Text)
)


def test_each_text_of_an_insert_has_variants_of_its_own() -> None:
    inserts = NullFreeInserts(insert(NOTES))
    split = [
        *inserts.split("INSERT INTO notes (number, text) VALUES (?, ?)", [(1, None)]),
        *inserts.split("INSERT INTO notes (number, text, tag) VALUES (?, ?, ?)", [(2, None, "red")]),
    ]
    assert split == [
        ("INSERT INTO notes (number) VALUES (?)", [(1,)]),
        ("INSERT INTO notes (number, tag) VALUES (?, ?)", [(2, "red")]),
    ]
