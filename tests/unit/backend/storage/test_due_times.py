import sqlite3
from contextlib import closing

import pytest
from sqlalchemy import BigInteger, Column, MetaData, Table, bindparam, select

from backend.clock import is_due
from backend.storage import due_times
from backend.storage.dialects.sqlite.dialect import Dialect

NOW = 1_790_000_000_000
LONGEST = 500


@pytest.mark.parametrize("ahead", [-LONGEST, -1, 0, 1, LONGEST, LONGEST + 1, 7_200_000])
def test_a_query_has_a_time_as_due_as_the_clock_has_it(ahead: int) -> None:
    times = Table("times", MetaData(), Column("at", BigInteger))
    condition = due_times.is_due(times.c.at, bindparam("now"), LONGEST)
    query = str(select(times.c.at).where(condition).compile(dialect=Dialect(paramstyle="named")))
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE times (at INTEGER)")
        connection.execute("INSERT INTO times VALUES (?), (NULL)", (NOW + ahead,))
        found = connection.execute(query, {"now": NOW}).fetchall()
    assert found == ([(NOW + ahead,)] if is_due(NOW + ahead, NOW, LONGEST) else [])
