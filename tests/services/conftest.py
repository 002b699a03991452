"""A backend for every test of a service, on a database in memory or on PostgreSQL."""

from collections.abc import Iterator
from functools import partial

import pytest

from backend.services.dependencies import Services
from backend.settings import ModelProvider
from backend.storage.dialects.postgresql.connection import DatabaseTimeouts
from workflow_api_testing import SteppedClock, TestBackend, test_backend

TestClock = SteppedClock


@pytest.fixture(autouse=True)
def generous_time_outs(database_url: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Generous time-outs for a server on a busy machine; unit tests check that callers get an answer within seconds."""
    if database_url is not None:
        generous = partial(DatabaseTimeouts, connect_seconds=120, pool_seconds=120, all_attempts_seconds=120)
        monkeypatch.setattr("backend.storage.dialects.postgresql.database.DatabaseTimeouts", generous)


@pytest.fixture
def backend(database_url: str | None, generous_time_outs: None) -> Iterator[TestBackend]:
    models = {name: ModelProvider(base_url="http://127.0.0.1:1") for name in ("openai", "openai-chat")}
    settings = {"deployment_id": "dep-test", "models": models, "watch_poll_seconds": 0.01}
    with test_backend(database=database_url, **settings) as backend:
        yield backend


@pytest.fixture
def clock(backend: TestBackend) -> TestClock:
    return backend.clock


@pytest.fixture
def services(backend: TestBackend) -> Services:
    return backend.composition.services
