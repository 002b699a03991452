import logging
import threading

import pytest

from backend.runtime.ticker import Ticker
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


def test_work_that_raises_is_done_again(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[int] = []

    def work() -> None:
        calls.append(1)
        raise OSError("away")

    with caplog.at_level(logging.CRITICAL):
        ticker = Ticker("t", work, seconds=0.01)
        ticker.start()
        until(lambda: len(calls) >= 3, "further calls")
        ticker.stop()


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
