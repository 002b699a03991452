import sqlite3
from contextlib import closing

import pytest
from sqlalchemy import BigInteger, Column, MetaData, Table, bindparam, select

from backend.common.clock import is_due
from backend.storage import sql_expressions
from backend.storage.dialects.sqlite.database_file import Dialect

NOW = 1_790_000_000_000
LONGEST = 500


@pytest.mark.parametrize("ahead", [-LONGEST, -1, 0, 1, LONGEST, LONGEST + 1, 7_200_000])
def test_a_query_has_a_time_as_due_as_the_clock_has_it(ahead: int) -> None:
    times = Table("times", MetaData(), Column("at", BigInteger))
    condition = sql_expressions.is_due(times.c.at, bindparam("now"), LONGEST)
    query = str(select(times.c.at).where(condition).compile(dialect=Dialect(paramstyle="named")))
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE times (at INTEGER)")
        connection.execute("INSERT INTO times VALUES (?), (NULL)", (NOW + ahead,))
        found = connection.execute(query, {"now": NOW}).fetchall()
    assert found == ([(NOW + ahead,)] if is_due(NOW + ahead, NOW, LONGEST) else [])
