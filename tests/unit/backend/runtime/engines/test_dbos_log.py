"""What of DBOS's log is left out."""

import logging
import threading

import pytest

from backend.runtime.engines import dbos_log
from backend.runtime.engines.dbos_log import OutageFilter
from backend.storage.outage import Outage


@pytest.fixture
def outage(monkeypatch: pytest.MonkeyPatch) -> Outage:
    outage = Outage()
    monkeypatch.setattr(dbos_log, "OUTAGE", outage)
    return outage


def record() -> logging.LogRecord:
    return logging.LogRecord("dbos", logging.WARNING, "_queue.py", 848, "no connection", (), None)


def test_a_failed_poll_is_logged_only_where_the_database_answers(outage: Outage) -> None:
    poller = threading.current_thread().name
    assert OutageFilter(lambda: True, poller).filter(record())

    def unhealthy() -> bool:
        outage.failed("it is full")
        return False

    assert not OutageFilter(unhealthy, poller).filter(record())
    assert not OutageFilter(lambda: True, "another").filter(record())


@pytest.mark.usefixtures("outage")
def test_what_other_threads_of_dbos_log_does_not_wait_for_the_database() -> None:
    def healthy() -> bool:
        raise AssertionError("the database was asked")

    assert OutageFilter(healthy, "the poller").filter(record())
