"""What of DBOS's log is left out."""

import logging

import pytest

from backend.runtime.engines import dbos
from backend.runtime.engines.dbos import OutageFilter
from backend.storage.outage import Outage


@pytest.fixture
def outage(monkeypatch: pytest.MonkeyPatch) -> Outage:
    outage = Outage()
    monkeypatch.setattr(dbos, "OUTAGE", outage)
    return outage


def record() -> logging.LogRecord:
    return logging.LogRecord("dbos", logging.WARNING, "_queue.py", 848, "no connection", (), None)


def test_what_dbos_logs_is_logged_only_where_the_database_answers(outage: Outage) -> None:
    assert OutageFilter(lambda: True).filter(record())

    def unhealthy() -> bool:
        outage.failed("it is full")
        return False

    assert not OutageFilter(unhealthy).filter(record())
    assert not OutageFilter(lambda: True).filter(record())


def test_a_lost_listener_of_dbos_is_not_logged(outage: Outage) -> None:
    lost = logging.LogRecord("dbos", logging.WARNING, "db.py", 434, "Notification listener error: %s", ("gone",), None)
    assert not OutageFilter(lambda: True).filter(lost)
