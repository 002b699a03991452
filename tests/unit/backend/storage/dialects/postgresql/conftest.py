from collections.abc import Iterator

import psycopg
import pytest

from backend.storage.dialects.postgresql.connection import engine_of
from backend.storage.dialects.postgresql.database import PostgresqlDatabase
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
def database(url: str) -> Iterator[PostgresqlDatabase]:
    with psycopg.connect(url) as connection:
        connection.execute("DELETE FROM notes")
    database = PostgresqlDatabase(url, 4)
    yield database
    database.close()
