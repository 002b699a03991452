import logging
import threading

import pytest

from backend.storage.outage import Outage, Ticker
from tests.support.poll import until


def test_a_wake_has_the_work_done_at_once() -> None:
    calls: list[int] = []
    ticker = Ticker("t", lambda: calls.append(1), seconds=600)
    ticker.start()
    until(lambda: len(calls) == 1, "the first call")
    ticker.wake()
    until(lambda: len(calls) == 2, "the second call")
    ticker.stop()


def test_a_wake_during_the_work_is_not_lost() -> None:
    calls: list[int] = []
    began, go_on = threading.Event(), threading.Event()

    def work() -> None:
        calls.append(1)
        began.set()
        assert go_on.wait(60)

    ticker = Ticker("t", work, seconds=600)
    ticker.start()
    assert began.wait(60)
    ticker.wake()
    go_on.set()
    until(lambda: len(calls) == 2, "the second call")
    ticker.stop()


def messages_of(outcomes: list[Exception | None], caplog: pytest.LogCaptureFixture) -> list[str]:
    """What is logged of rounds with these outcomes, and of one that succeeds after them."""
    left = list(outcomes)
    done = threading.Event()

    def work() -> None:
        if not left:
            done.set()
        elif error := left.pop(0):
            raise error

    ticker = Ticker("t", work, seconds=0.001)
    ticker.start()
    assert done.wait(60)
    ticker.stop()
    return caplog.messages


def test_work_that_raises_is_done_again_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    away = OSError("away")
    assert messages_of([away, away, away], caplog) == ["Rounds of t fail: away", "Rounds of t succeed again"]
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    assert caplog.records[0].exc_info


def test_an_outage_that_the_database_has_logged_is_not_logged_by_each_ticker(caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage()
    errors = [outage.error("The database cannot be reached", reason) for reason in ("refused", "refused", "starting")]
    caplog.set_level(logging.INFO)
    assert messages_of([*errors], caplog) == [
        "The database is unavailable: refused",
        "The database is unavailable: starting",
    ]


def test_stopping_one_that_never_started_is_harmless() -> None:
    Ticker("t", lambda: None, seconds=1).stop()


def test_a_first_call_that_is_to_come_later_comes_with_a_wake_and_not_with_a_stop() -> None:
    calls: list[int] = []
    ticker = Ticker("t", lambda: calls.append(1), seconds=600, first_seconds=600)
    ticker.start()
    ticker.wake()
    until(lambda: len(calls) == 1, "the first call")
    ticker.stop()
    other = Ticker("t", lambda: calls.append(2), seconds=600, first_seconds=600)
    other.start()
    other.stop()
    assert calls == [1]
