"""What the log says of an outage of the database."""

import pytest

from backend.storage.outage import Outage


@pytest.fixture
def now() -> list[float]:
    return [1000.0]


@pytest.fixture
def outage(now: list[float]) -> Outage:
    return Outage(lambda: now[0])


def test_an_outage_ends_once_nothing_has_failed_for_a_while(
    outage: Outage, now: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        outage.failed("it is full")
        outage.answered()
        now[0] += 1
    assert outage.lasts
    now[0] += 1
    outage.answered()
    outage.answered()
    assert not outage.lasts
    assert caplog.messages == ["The database is unavailable: it is full", "The database answers again"]
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
