"""A real database for every test of a service."""

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from backend.cursors import Cursors
from backend.deployment import sql as deployment_sql
from backend.services import Services
from backend.storage.database import Database
from backend.storage.dialects.postgresql.connection import Timeouts
from backend.storage.factory import DataFolder, open_postgresql


class TestClock:
    """A clock that moves only when `advance` is called."""

    __test__ = False

    def __init__(self) -> None:
        self.now = 1_790_000_000_000

    def __call__(self) -> int:
        return self.now

    def advance(self, *, seconds: float = 0, days: float = 0) -> None:
        self.now += int((seconds + days * 86_400) * 1000)


@pytest.fixture
def clock() -> TestClock:
    return TestClock()


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with an empty database of the newest schema; a copy takes a tenth of the time of migrations."""
    path = tmp_path_factory.mktemp("migrated") / "data"
    folder = DataFolder(path)
    folder.open_database().close()
    folder.close()
    return path


@pytest.fixture(autouse=True)
def generous_time_outs(database_url: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Generous time-outs for a server on a busy machine; unit tests check that callers get an answer within seconds."""
    if database_url is not None:
        generous = partial(Timeouts, connect_seconds=120, pool_seconds=120, attempts_seconds=120)
        monkeypatch.setattr("backend.storage.dialects.postgresql.database.Timeouts", generous)


@pytest.fixture
def services(tmp_path: Path, clock: TestClock, database_url: str | None, migrated: Path) -> Iterator[Services]:
    if database_url is None:
        shutil.copytree(migrated, tmp_path / "data")
    folder = DataFolder(tmp_path / "data")
    database: Database = folder.open_database() if database_url is None else open_postgresql(database_url, 16)
    deployment = database.write(lambda tx: deployment_sql.ensure(tx, "dep-test"))
    made = Services(
        database,
        clock,
        deployment.deployment_id,
        Cursors(bytes.fromhex(deployment.cursor_secret)),
        model_providers=frozenset({"openai", "openai-chat"}),
    )
    yield made
    made.schemas.close()
    database.close()
    folder.close()
