"""A search of the audit trail is a range of one index, however many records there are."""

from contextlib import closing

import pytest
from sqlalchemy import create_engine
from sqlalchemy.pool import StaticPool

from backend.audit import sql
from backend.storage.dialects.sqlite.dialect import Dialect
from backend.storage.statements import Statement
from backend.storage.tables.metadata import METADATA

STATEMENTS = [
    *((leading, statement) for (leading, _), statement in sql._FOUND.items()),
    *sql._LAST.items(),
]


@pytest.mark.parametrize(("leading", "statement"), STATEMENTS)
def test_every_search_is_a_range_of_the_index_of_its_leading_filter(leading: str, statement: Statement) -> None:
    engine = create_engine("sqlite://", poolclass=StaticPool)
    METADATA.create_all(engine)
    with closing(engine.raw_connection()) as raw:
        text = statement.text(Dialect(paramstyle="qmark"))
        rows = raw.driver_connection.execute(f"EXPLAIN QUERY PLAN {text}", [1] * text.count("?"))  # type: ignore[union-attr]
        plan = [row[3] for row in rows]
    engine.dispose()
    equal = f"{leading}=? AND " if leading else ""
    searches = [step for step in plan if " audit_records " in step]
    assert len(searches) == 1
    assert f"INDEX {sql._INDEXES[leading]} ({equal}" in searches[0]
    assert searches[0].startswith("SEARCH audit_records USING ")
    assert not any("TEMP B-TREE" in step for step in plan)


def test_every_set_of_filters_has_a_statement() -> None:
    for number in range(16):
        given = [name for place, name in enumerate(("target", "actor", "action", "text")) if number >> place & 1]
        leading = next((name for name in given if name != "text"), "")
        assert (leading, frozenset(given) - {leading}) in sql._FOUND
    assert len(sql._FOUND) == 16


@pytest.mark.parametrize(
    ("text", "pattern"), [("100%", "%100\\%%"), ("a_b", "%a\\_b%"), ("a\\b", "%a\\\\b%"), ("ü", "%ü%")]
)
def test_a_text_is_looked_for_as_it_is(text: str, pattern: str) -> None:
    assert sql.Filters(text=text).given()["text"] == pattern
