from collections.abc import Iterator

import psycopg
import pytest

from backend.storage.dialects.postgresql import announcements, pool, transaction
from backend.storage.dialects.postgresql.connection import engine_of
from backend.storage.dialects.postgresql.database import PostgresqlDatabase
from backend.storage.outage import Outage
from tests.support.postgresql import Postgresql
from tests.unit.backend.storage.dialects.postgresql.notes import CATALOGUE


@pytest.fixture(scope="module")
def url(postgresql_server: Postgresql) -> Iterator[str]:
    with postgresql_server.database() as url:
        engine = engine_of(url)
        CATALOGUE.create_all(engine)
        engine.dispose()
        yield url


@pytest.fixture
def outage(monkeypatch: pytest.MonkeyPatch) -> Outage:
    """An outage of this test's own, in place of the process's."""
    outage = Outage()
    for module in (announcements, pool, transaction):
        monkeypatch.setattr(module, "OUTAGE", outage)
    return outage


@pytest.fixture
def database(url: str) -> Iterator[PostgresqlDatabase]:
    with psycopg.connect(url) as connection:
        connection.execute("DELETE FROM notes")
    database = PostgresqlDatabase(url, 4)
    yield database
    database.close()
